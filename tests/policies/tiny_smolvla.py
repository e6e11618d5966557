"""A SmolVLA of 60,000 weights with a vocabulary of ten words, so that LeRobot's own model runs without a hub."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from policies.lerobot_files import LerobotManifest, Parts

WORDS = ("push", "the", "block", "<pad>", "<unk>", "<image>", "<end_of_utterance>", "<fake_image>", "<global_image>")
STATE_DIM, ACTION_DIM, CHUNK, EXECUTE = 3, 2, 12, 6
CAMERA, SIZE_PX = "front", 16


def backbone(folder: Path) -> Path:
    """A vision-language model as transformers keeps it in a folder, with its processor; only the sizes are chosen."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    transformers: Any = import_module("transformers")
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = {
        "image_token": "<image>", "fake_image_token": "<fake_image>", "global_image_token": "<global_image>",
        "end_of_utterance_token": "<end_of_utterance>",
    }  # fmt: skip
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", extra_special_tokens=marks
    )
    text: dict[str, Any] = {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": len(WORDS),
        "pad_token_id": vocabulary["<pad>"],
    }  # fmt: skip
    vision: dict[str, Any] = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": SIZE_PX, "patch_size": 8,
    }  # fmt: skip
    picture = vocabulary["<image>"]
    transformers.SmolVLMConfig(
        text_config=text, vision_config=vision, scale_factor=2, image_token_id=picture
    ).save_pretrained(folder)
    transformers.SmolVLMProcessor(
        image_processor=transformers.SmolVLMImageProcessor(),
        tokenizer=tokenizer,
        video_processor=transformers.SmolVLMVideoProcessor(),
    ).save_pretrained(folder)
    return folder


def smolvla(folder: Path, seed: int = 0) -> Parts:
    """LeRobot's SmolVLA over such a backbone in `folder`, with random weights and actions of another scale."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig

    config = SmolVLAConfig(
        chunk_size=CHUNK, n_action_steps=EXECUTE, max_state_dim=4, max_action_dim=4, num_steps=6, num_vlm_layers=2,
        vlm_model_name=str(backbone(folder)), resize_imgs_with_padding=(SIZE_PX, SIZE_PX), device="cpu",
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (STATE_DIM,)),
            f"observation.images.{CAMERA}": PolicyFeature(FeatureType.VISUAL, (3, SIZE_PX, SIZE_PX)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))},
    )  # fmt: skip
    statistics = {
        "observation.state": {"mean": torch.zeros(STATE_DIM), "std": torch.ones(STATE_DIM)},
        "action": {"mean": torch.tensor([0.5, -0.5]), "std": torch.tensor([0.1, 0.2])},
    }
    torch.manual_seed(seed)
    policy: Any = get_policy_class("smolvla")(config)
    preprocessor, postprocessor = make_pre_post_processors(config, dataset_stats=statistics)
    about = LerobotManifest(inputs={"observation.state": (0, STATE_DIM)}, execute=EXECUTE, task="push the block")
    return Parts(about=about, policy=policy, preprocessor=preprocessor, postprocessor=postprocessor)
