"""A plug-in of a policy as LeRobot's documents describe it: importing the package registers the type `peer`."""

from lerobot_policy_peer.configuration_peer import PeerConfig as PeerConfig
from lerobot_policy_peer.processor_peer import make_peer_pre_post_processors as make_peer_pre_post_processors
