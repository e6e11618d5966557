"""Headless rendering of camera images: no shadows, reflections or multisampling, and coarse round shapes.

The GL objects of a model are made once and kept. A pair of 224 x 224 images then takes 2 to 4 ms of one core
(`python -m benchmarks.bimanual` prints it).

The GL library is EGL where it is installed, else OSMesa. The environment variable MUJOCO_GL (egl, osmesa or disable)
overrides the choice.
"""

# MuJoCo ships no type stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes.util
import functools
import importlib
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
    """(platform, ""), or ("", why there is none)."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in ("disable", "disabled", "off", "false", "0"):
        return "", f"No pictures: the environment variable MUJOCO_GL is {asked!r}; unset it to have pictures."
    for platform, (library, _) in _LIBRARIES.items():
        if (not asked or asked == platform) and ctypes.util.find_library(library):
            return platform, ""
    package = _LIBRARIES.get(asked, _LIBRARIES["egl"])[1]
    return "", f"No pictures: no GL library for headless rendering is installed; `apt install {package}` brings one."


def why_no_images() -> str:
    """Why this machine renders no images, in one line; empty when it renders them."""
    platform, reason = _choice()
    return reason or _render_thread().submit(_open, platform).result()[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDisturbance:
    """Changes of light, camera pose and view that a verifier must cope with."""

    light: float = 1.0
    """Factor on the brightness of all lights."""
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Factors on red, green and blue of all lights."""
    lamp_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Displacement of every lamp, in the world; it still points at the same place. The camera's own light stays."""
    offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Displacement of every camera, in the world."""
    turned_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Rotation vector of every camera, about the axes of the world."""
    cover: tuple[float, float, float] | None = None
    """An obstacle before the camera: its middle, right and up of the optical axis, and its half width, all as shares of
    half the image. None: no obstacle."""


UNDISTURBED = ImageDisturbance()


def render(
    model: mujoco.MjModel, data: mujoco.MjData, names: Sequence[str], disturbance: ImageDisturbance = UNDISTURBED
) -> Mapping[str, ImageArray]:
    """camera -> image (224, 224, 3) uint8 RGB, row 0 on top; empty where this machine renders none.

    `data` must have its kinematics computed.
    """
    if why_no_images():
        return {}
    return _render_thread().submit(_draw, model, data, tuple(names), disturbance).result()


@functools.cache
def _render_thread() -> ThreadPoolExecutor:
    """A GL context belongs to one thread, so one thread of the process renders everything."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="rendering")


def _draw(
    model: mujoco.MjModel, data: mujoco.MjData, names: Sequence[str], disturbance: ImageDisturbance
) -> Mapping[str, ImageArray]:
    context = _open(_choice()[0])[0]
    assert context is not None
    context.make_current()
    renderer = _renderer(model)
    return {name: renderer.render(model, data, name, disturbance) for name in names}


_RENDERERS: OrderedDict[tuple[bytes, bytes, int], _Renderer] = OrderedDict()
_KEPT = 4


def _renderer(model: mujoco.MjModel) -> _Renderer:
    """The renderer for all models with these names and textures: rows of one scene share it. The last four are kept."""
    key = model.names, model.tex_data.tobytes(), model.nmesh
    if key not in _RENDERERS:
        _RENDERERS[key] = _Renderer(model)
    _RENDERERS.move_to_end(key)
    while len(_RENDERERS) > _KEPT:
        _RENDERERS.popitem(last=False)[1].close()
    return _RENDERERS[key]


@functools.cache
def _open(platform: str) -> tuple[_Context | None, str]:
    """The GL context of this process, or the reason why the installed library gives none."""
    try:
        module = importlib.import_module(f"mujoco.{platform}")
        return module.GLContext(WIDTH, HEIGHT), ""
    except (ImportError, RuntimeError, AttributeError) as failed:
        package = _LIBRARIES[platform][1]
        reason = " ".join(str(failed).split())
        return None, f"No pictures: {platform} does not start ({reason}); try `apt install {package} libgl1-mesa-dri`."


class _Renderer:
    """MuJoCo's classic renderer, without costly effects, for models that differ from one another in numbers only."""

    def __init__(self, model: mujoco.MjModel) -> None:
        quality = model.vis.quality
        quality.offsamples = quality.shadowsize = 0
        quality.numslices, quality.numstacks = 16, 10
        model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = 0
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._frame = mujoco.MjrRect(0, 0, WIDTH, HEIGHT)

    def render(
        self, model: mujoco.MjModel, data: mujoco.MjData, name: str, disturbance: ImageDisturbance
    ) -> ImageArray:
        """One image (224, 224, 3) uint8 from one named camera."""
        self._camera.fixedcamid = model.camera(name).id
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, self._option, None, self._camera, everything, self._scene)
        if disturbance is not UNDISTURBED:
            self._disturb(disturbance)
        # Each renderer has a buffer of its own, and another one may have rendered since.
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjr_render(self._frame, self._scene, self._context)
        picture = np.empty((HEIGHT, WIDTH, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(picture, None, self._frame, self._context)
        return np.ascontiguousarray(picture[::-1])

    def _disturb(self, disturbance: ImageDisturbance) -> None:
        """Change lights and camera pose and add the obstacle, in this scene only, which the next image updates."""
        for light in self._scene.lights[: self._scene.nlight]:
            for part in (light.ambient, light.diffuse, light.specular):
                part[:] = np.clip(disturbance.light * np.array(disturbance.tint) * part, 0.0, 1.0)
            if not light.headlight:
                high = abs(float(light.pos[2] / light.dir[2])) if light.dir[2] else 1.0
                way = high * np.asarray(light.dir) - disturbance.lamp_m
                light.pos[:] = np.asarray(light.pos) + disturbance.lamp_m
                light.dir[:] = way / np.linalg.norm(way)
        # Only disturbed images need it, and a station starts sooner without.
        from scipy.spatial.transform import Rotation

        turn = Rotation.from_rotvec(disturbance.turned_rad)
        for eye in self._scene.camera:
            eye.pos[:] = np.asarray(eye.pos) + disturbance.offset_m
            eye.forward[:], eye.up[:] = turn.apply(eye.forward), turn.apply(eye.up)
        if disturbance.cover is not None:
            self._cover(*disturbance.cover)

    def _cover(self, right: float, up: float, half: float) -> None:
        eye, other = self._scene.camera
        forward, upward = np.asarray(eye.forward), np.asarray(eye.up)
        near_m = 3.0 * float(eye.frustum_near)
        wide_m = near_m * float(eye.frustum_top / eye.frustum_near)
        middle_m = 0.5 * (np.asarray(eye.pos) + other.pos)
        at_m = middle_m + near_m * forward + wide_m * (right * np.cross(forward, upward) + up * upward)
        turn = np.column_stack([np.cross(forward, upward), upward, -forward])
        geom = self._scene.geoms[self._scene.ngeom]
        size = np.array([half * wide_m, half * wide_m, 0.02 * near_m])
        mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_BOX, size, at_m, turn.ravel(), np.array([0.3, 0.25, 0.2, 1.0]))
        self._scene.ngeom += 1

    def close(self) -> None:
        """Free the GL objects."""
        self._context.free()
