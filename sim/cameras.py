"""Pictures without a display, off the control path: no shadows, no reflections, no multisampling (12x faster).

The GL library is chosen by what is installed: EGL, else OSMesa; the environment variable MUJOCO_GL (egl, osmesa, or
disable) decides instead when it is set.
"""

# MuJoCo ships no type stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes.util
import functools
import importlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import mujoco
import numpy as np

from enpire.types import ImageArray

WIDTH, HEIGHT = 224, 224
_LIBRARIES = {"egl": ("EGL", "libegl1"), "osmesa": ("OSMesa", "libosmesa6")}
"""MUJOCO_GL value -> (library, Debian package that brings it)."""


class _Context(Protocol):
    def make_current(self) -> None: ...
    def free(self) -> None: ...


@functools.cache
def _choice() -> tuple[str, str]:
    """(platform, "") or ("", why there is none)."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in ("disable", "disabled", "off", "false", "0"):
        return "", f"No pictures: the environment variable MUJOCO_GL is {asked!r}; unset it to have pictures."
    for platform, (library, _) in _LIBRARIES.items():
        if (not asked or asked == platform) and ctypes.util.find_library(library):
            return platform, ""
    package = _LIBRARIES.get(asked, _LIBRARIES["egl"])[1]
    return "", f"No pictures: no GL library for headless rendering is installed; `apt install {package}` brings one."


def why() -> str:
    """Why this machine makes no pictures, in one line; empty when it does."""
    platform, reason = _choice()
    return reason or _darkroom().submit(_open, platform).result()[1]


def render(model: mujoco.MjModel, data: mujoco.MjData, names: Sequence[str]) -> Mapping[str, ImageArray]:
    """camera -> (224, 224, 3) RGB, row 0 on top, of one row with its kinematics computed; empty when `why()`."""
    if why():
        return {}
    return _darkroom().submit(_draw, model, data, tuple(names)).result()


@functools.cache
def _darkroom() -> ThreadPoolExecutor:
    """A GL context belongs to one thread, so one thread of the process does all the drawing."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="darkroom")


def _draw(model: mujoco.MjModel, data: mujoco.MjData, names: Sequence[str]) -> Mapping[str, ImageArray]:
    context = _open(_choice()[0])[0]
    assert context is not None
    context.make_current()
    studio = _Studio(model)
    try:
        return {name: studio.shoot(data, name) for name in names}
    finally:
        studio.close()


@functools.cache
def _open(platform: str) -> tuple[_Context | None, str]:
    """One GL context a process, kept; or the reason why the installed library gives none."""
    try:
        module = importlib.import_module(f"mujoco.{platform}")
        return module.GLContext(WIDTH, HEIGHT), ""
    except (ImportError, RuntimeError, AttributeError) as failed:
        package = _LIBRARIES[platform][1]
        reason = " ".join(str(failed).split())
        return None, f"No pictures: {platform} does not start ({reason}); try `apt install {package} libgl1-mesa-dri`."


class _Studio:
    """MuJoCo's classic renderer for one model, with everything dear switched off."""

    def __init__(self, model: mujoco.MjModel) -> None:
        model.vis.quality.offsamples = 0
        model.vis.quality.shadowsize = 0
        model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = 0
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._option = mujoco.MjvOption()

    def shoot(self, data: mujoco.MjData, name: str) -> ImageArray:
        """One picture from one named camera."""
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        camera.fixedcamid = self._model.camera(name).id
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, data, self._option, None, camera, everything, self._scene)
        frame = mujoco.MjrRect(0, 0, WIDTH, HEIGHT)
        mujoco.mjr_render(frame, self._scene, self._context)
        picture = np.empty((HEIGHT, WIDTH, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(picture, None, frame, self._context)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free the GL objects."""
        self._context.free()
