"""ROS 2 messages as DDS types, as a ROS 2 node with rmw_cyclonedds sends and reads them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, int64, sequence, uint8, uint32, uint64

if TYPE_CHECKING:
    Int32 = int
    Int64 = int
    Uint8 = int
    Uint32 = int
    Uint64 = int
    Names = list[str]
    Floats = list[float]
    Octets = list[int]
else:
    # The types that cyclonedds needs at run time; a type checker sees the Python types above.
    Int32, Int64, Uint8, Uint32, Uint64 = int32, int64, uint8, uint32, uint64
    Names, Floats, Octets = sequence[str], sequence[float64], sequence[uint8]


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
    data: Octets = field(default_factory=list)


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
