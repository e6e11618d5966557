"""Which packages LeRobot's types of robots, teleoperators and cameras need, said before LeRobot begins with one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from enpire.errors import MissingExtra
from enpire.files import is_mapping
from enpire.plugins import is_installed

_GROUPS: Mapping[str, Mapping[str, str]] = {
    "so100_follower so101_follower bi_so_follower so100_leader so101_leader bi_so_leader hope_jr_arm hope_jr_hand "
    "openarm_mini bi_openarm_mini": {"scservo_sdk": "feetech", "serial": "feetech", "deepdiff": "feetech"},
    "koch_follower koch_leader omx_follower omx_leader": {
        "dynamixel_sdk": "dynamixel", "serial": "dynamixel", "deepdiff": "dynamixel",
    },
    "openarm_follower bi_openarm_follower openarm_leader bi_openarm_leader": {"can": "damiao"},
    "rebot_b601_follower bi_rebot_b601_follower": {"motorbridge": "rebot"},
    "rebot_102_leader bi_rebot_102_leader": {"motorbridge_smart_servo": "rebot"},
    "homunculus_arm homunculus_glove": {"serial": "hopejr", "deepdiff": "hopejr"},
    "reachy2 reachy2_teleoperator reachy2_camera": {"reachy2_sdk": "reachy2"},
    "keyboard keyboard_ee keyboard_rover": {"pynput": "pynput-dep"},
    "lekiwi": {"scservo_sdk": "lekiwi", "serial": "lekiwi", "deepdiff": "lekiwi", "zmq": "lekiwi"},
    "lekiwi_client": {"zmq": "lekiwi"},
    "unitree_g1": {"unitree_sdk2py": "unitree_g1"},
    "gamepad": {"pygame": "gamepad"},
    "phone": {"hebi": "phone", "teleop": "phone"},
    "intelrealsense": {"pyrealsense2": "intelrealsense"},
    "zmq": {"zmq": "pyzmq-dep"},
    "earthrover_mini_plus opencv": {},
}  # fmt: skip
NEEDS: Mapping[str, Mapping[str, str]] = {kind: needs for kinds, needs in _GROUPS.items() for kind in kinds.split()}
"""LeRobot's type -> module that it imports -> extra of LeRobot that installs it. Types of plug-ins are not here."""


def require_packages(config: Mapping[str, object]) -> None:
    """Check the packages of a configuration's type and of its cameras' types.

    Raises:
        MissingExtra: one is not installed; the sentence names the extra of LeRobot.
    """
    for kind, needs in _needs(config):
        missing = sorted(module for module in needs if not is_installed(module))
        if missing:
            raise MissingExtra(
                f"LeRobot's {kind} needs the package {missing[0]}, which is not installed: "
                f"pip install 'lerobot[{needs[missing[0]]}]'."
            )


def _needs(config: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, str]]]:
    kind = str(config.get("type"))
    if kind == "gamepad" and config.get("hidapi_fallback"):
        yield kind, {"hid": "gamepad"}
    else:
        yield kind, NEEDS.get(kind, {})
    cameras = config.get("cameras")
    for camera in cameras.values() if is_mapping(cameras) else ():
        if is_mapping(camera):
            yield f"camera {camera.get('type')}", NEEDS.get(str(camera.get("type")), {})
