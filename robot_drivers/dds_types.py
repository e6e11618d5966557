"""ROS 2 messages as DDS types, as a ROS 2 node with rmw_cyclonedds sends and reads them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cyclonedds.idl import IdlStruct
from cyclonedds.idl._machinery import BytesMachine
from cyclonedds.idl.types import float64, int32, int64, sequence, uint8, uint32, uint64

if TYPE_CHECKING:
    Int32 = int
    Int64 = int
    Uint8 = int
    Uint32 = int
    Uint64 = int
    Float64 = float
    Names = list[str]
    Floats = list[float]
    Octets = bytes
else:
    # The types that cyclonedds needs at run time; a type checker sees the Python types above.
    Int32, Int64, Uint8, Uint32, Uint64, Float64 = int32, int64, uint8, uint32, uint64, float64
    Names, Floats = sequence[str], sequence[float64]
    Octets = sequence[uint8]


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    """builtin_interfaces/Time."""

    sec: Int32 = 0
    nanosec: Uint32 = 0


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    """std_msgs/Header."""

    stamp: Time = field(default_factory=Time)
    frame_id: str = ""


@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    """sensor_msgs/JointState."""

    header: Header = field(default_factory=Header)
    name: Names = field(default_factory=list)
    position: Floats = field(default_factory=list)
    velocity: Floats = field(default_factory=list)
    effort: Floats = field(default_factory=list)


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.dds_.CompressedImage_"):
    """sensor_msgs/CompressedImage."""

    header: Header = field(default_factory=Header)
    format: str = "png"
    data: Octets = b""


@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):
    """sensor_msgs/Image."""

    header: Header = field(default_factory=Header)
    height: Uint32 = 0
    width: Uint32 = 0
    encoding: str = ""
    is_bigendian: Uint8 = 0
    step: Uint32 = 0
    data: Octets = b""


def _read_as_bytes(kind: type[IdlStruct]) -> None:
    """Encode and decode the field `data` as bytes: the same on the wire, without a Python number for each byte."""
    kind.__idl__.populate()
    for machine in (kind.__idl__.v1_machine, kind.__idl__.v2_machine):
        members = getattr(machine, "members_machines", {})
        if "data" in members:
            members["data"] = BytesMachine()


for _kind in (CompressedImage, Image):
    _read_as_bytes(_kind)


@dataclass
class MultiArrayDimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    """std_msgs/MultiArrayDimension."""

    label: str = ""
    size: Uint32 = 0
    stride: Uint32 = 0


if TYPE_CHECKING:
    Dimensions = list[MultiArrayDimension]
else:
    Dimensions = sequence[MultiArrayDimension]


@dataclass
class MultiArrayLayout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    """std_msgs/MultiArrayLayout."""

    dim: Dimensions = field(default_factory=list)
    data_offset: Uint32 = 0


@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    """std_msgs/Float64MultiArray."""

    layout: MultiArrayLayout = field(default_factory=MultiArrayLayout)
    data: Floats = field(default_factory=list)


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    """builtin_interfaces/Duration."""

    sec: Int32 = 0
    nanosec: Uint32 = 0


@dataclass
class JointTrajectoryPoint(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):
    """trajectory_msgs/JointTrajectoryPoint."""

    positions: Floats = field(default_factory=list)
    velocities: Floats = field(default_factory=list)
    accelerations: Floats = field(default_factory=list)
    effort: Floats = field(default_factory=list)
    time_from_start: Duration = field(default_factory=Duration)


if TYPE_CHECKING:
    Points = list[JointTrajectoryPoint]
else:
    Points = sequence[JointTrajectoryPoint]


@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):
    """trajectory_msgs/JointTrajectory."""

    header: Header = field(default_factory=Header)
    joint_names: Names = field(default_factory=list)
    points: Points = field(default_factory=list)


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    """geometry_msgs/Vector3."""

    x: Float64 = 0.0
    y: Float64 = 0.0
    z: Float64 = 0.0


@dataclass
class Twist(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    """geometry_msgs/Twist."""

    linear: Vector3 = field(default_factory=Vector3)
    angular: Vector3 = field(default_factory=Vector3)


@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs.msg.dds_.TwistStamped_"):
    """geometry_msgs/TwistStamped."""

    header: Header = field(default_factory=Header)
    twist: Twist = field(default_factory=Twist)


@dataclass
class Bool(IdlStruct, typename="std_msgs.msg.dds_.Bool_"):
    """std_msgs/Bool."""

    data: bool = False


@dataclass
class Empty(IdlStruct, typename="std_msgs.msg.dds_.Empty_"):
    """std_msgs/Empty; a type of IDL needs a member."""

    structure_needs_at_least_one_member: Uint8 = 0


@dataclass
class String(IdlStruct, typename="std_msgs.msg.dds_.String_"):
    """std_msgs/String."""

    data: str = ""


@dataclass
class KeyValue(IdlStruct, typename="diagnostic_msgs.msg.dds_.KeyValue_"):
    """diagnostic_msgs/KeyValue."""

    key: str = ""
    value: str = ""


if TYPE_CHECKING:
    KeyValues = list[KeyValue]
else:
    KeyValues = sequence[KeyValue]


@dataclass
class DiagnosticStatus(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticStatus_"):
    """diagnostic_msgs/DiagnosticStatus."""

    level: Uint8 = 0
    name: str = ""
    message: str = ""
    hardware_id: str = ""
    values: KeyValues = field(default_factory=list)


if TYPE_CHECKING:
    Statuses = list[DiagnosticStatus]
else:
    Statuses = sequence[DiagnosticStatus]


@dataclass
class DiagnosticArray(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticArray_"):
    """diagnostic_msgs/DiagnosticArray."""

    header: Header = field(default_factory=Header)
    status: Statuses = field(default_factory=list)


@dataclass
class TriggerRequest(IdlStruct, typename="std_srvs.srv.dds_.Trigger_Request_"):
    """std_srvs/Trigger, the request; rmw_cyclonedds puts client and sequence number before its content."""

    client: Uint64 = 0
    sequence_number: Int64 = 0
    structure_needs_at_least_one_member: Uint8 = 0


@dataclass
class TriggerResponse(IdlStruct, typename="std_srvs.srv.dds_.Trigger_Response_"):
    """std_srvs/Trigger, the answer."""

    client: Uint64 = 0
    sequence_number: Int64 = 0
    success: bool = False
    message: str = ""


@dataclass
class SwitchControllerRequest(IdlStruct, typename="controller_manager_msgs.srv.dds_.SwitchController_Request_"):
    """controller_manager_msgs/SwitchController, the request."""

    client: Uint64 = 0
    sequence_number: Int64 = 0
    activate_controllers: Names = field(default_factory=list)
    deactivate_controllers: Names = field(default_factory=list)
    strictness: Int32 = 0
    activate_asap: bool = False
    timeout: Duration = field(default_factory=Duration)


@dataclass
class SwitchControllerResponse(IdlStruct, typename="controller_manager_msgs.srv.dds_.SwitchController_Response_"):
    """controller_manager_msgs/SwitchController, the answer; ROS 2 Iron and earlier have no message."""

    client: Uint64 = 0
    sequence_number: Int64 = 0
    ok: bool = False
    message: str = ""
