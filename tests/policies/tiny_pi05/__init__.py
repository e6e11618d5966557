"""pi0.5 of some ten thousand weights, as a policy type of its own.

LeRobot's configuration knows only Gemma's two real sizes (4.1 billion weights). The network here is made of LeRobot's
own classes with other widths; its attention, losses, sampling, processors and files are LeRobot's, unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from policies.lerobot_files import LerobotManifest, Parts

STATE_DIM, ACTION_DIM, CHUNK, EXECUTE = 3, 2, 8, 4
CAMERA, SIZE_PX = "front", 28
VOCABULARY = ("<pad>", "<unk>", "Task:", "push", "State:", "Action:", *(f"{n}" for n in range(256)))
_TOKENIZER = "google/paligemma-3b-pt-224"


def tokenizer(folder: Path) -> None:
    """A tokenizer of these words in a folder that has the name under which LeRobot asks for pi0.5's."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>")
    made.save_pretrained(folder / _TOKENIZER)


def pi05(seed: int = 0) -> Parts:
    """The policy with random weights; `tokenizer` has been called for the present folder."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    from tests.policies.tiny_pi05.configuration_tiny_pi05 import TinyPI05Config

    config: Any = TinyPI05Config(
        chunk_size=CHUNK, n_action_steps=EXECUTE, max_state_dim=4, max_action_dim=4, num_inference_steps=3,
        image_resolution=(SIZE_PX, SIZE_PX), tokenizer_max_length=16, device="cpu", push_to_hub=False,
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (STATE_DIM,)),
            f"observation.images.{CAMERA}": PolicyFeature(FeatureType.VISUAL, (3, SIZE_PX, SIZE_PX)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))},
    )  # fmt: skip
    torch.manual_seed(seed)
    policy: Any = get_policy_class("tiny_pi05")(config)
    statistics = {
        "observation.state": {"q01": -torch.ones(STATE_DIM), "q99": torch.ones(STATE_DIM)},
        "action": {"q01": torch.tensor([-0.3, -0.3]), "q99": torch.tensor([0.3, 0.3])},
    }
    before, after = make_pre_post_processors(config, dataset_stats=statistics)
    about = LerobotManifest(inputs={"observation.state": (0, STATE_DIM)}, execute=EXECUTE, task="push")
    return Parts(about=about, policy=policy, preprocessor=before, postprocessor=after)
