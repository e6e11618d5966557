"""Messages of ROS 2 as a node with rmw_cyclonedds sends them, written from the definitions of ROS 2 for the tests."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cyclonedds.idl import IdlStruct

if TYPE_CHECKING:  # a type checker sees the Python types
    from builtins import float as float64
    from builtins import int as int32
    from builtins import int as int64
    from builtins import int as uint8
    from builtins import int as uint32
    from builtins import int as uint64
    from builtins import list as sequence
else:
    from cyclonedds.idl.types import float64, int32, int64, sequence, uint8, uint32, uint64


@dataclass
class Stamp(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Span(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Head(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Stamp = field(default_factory=Stamp)
    frame_id: str = ""


@dataclass
class Joints(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    header: Head = field(default_factory=Head)
    name: sequence[str] = field(default_factory=list)
    position: sequence[float64] = field(default_factory=list)
    velocity: sequence[float64] = field(default_factory=list)
    effort: sequence[float64] = field(default_factory=list)


@dataclass
class Point(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):
    positions: sequence[float64] = field(default_factory=list)
    velocities: sequence[float64] = field(default_factory=list)
    accelerations: sequence[float64] = field(default_factory=list)
    effort: sequence[float64] = field(default_factory=list)
    time_from_start: Span = field(default_factory=Span)


@dataclass
class Trajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):
    header: Head = field(default_factory=Head)
    joint_names: sequence[str] = field(default_factory=list)
    points: sequence[Point] = field(default_factory=list)


@dataclass
class Vector(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0


@dataclass
class TwistMessage(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    linear: Vector = field(default_factory=Vector)
    angular: Vector = field(default_factory=Vector)


@dataclass
class StampedTwist(IdlStruct, typename="geometry_msgs.msg.dds_.TwistStamped_"):
    header: Head = field(default_factory=Head)
    twist: TwistMessage = field(default_factory=TwistMessage)


@dataclass
class Flag(IdlStruct, typename="std_msgs.msg.dds_.Bool_"):
    data: bool = False


@dataclass
class Nothing(IdlStruct, typename="std_msgs.msg.dds_.Empty_"):
    structure_needs_at_least_one_member: uint8 = 0


@dataclass
class Picture(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):
    header: Head = field(default_factory=Head)
    height: uint32 = 0
    width: uint32 = 0
    encoding: str = ""
    is_bigendian: uint8 = 0
    step: uint32 = 0
    data: sequence[uint8] = field(default_factory=list)


@dataclass
class SwitchRequest(IdlStruct, typename="controller_manager_msgs.srv.dds_.SwitchController_Request_"):
    client: uint64 = 0
    sequence_number: int64 = 0
    activate_controllers: sequence[str] = field(default_factory=list)
    deactivate_controllers: sequence[str] = field(default_factory=list)
    strictness: int32 = 0
    activate_asap: bool = False
    timeout: Span = field(default_factory=Span)


@dataclass
class SwitchResponse(IdlStruct, typename="controller_manager_msgs.srv.dds_.SwitchController_Response_"):
    client: uint64 = 0
    sequence_number: int64 = 0
    ok: bool = False
    message: str = ""
