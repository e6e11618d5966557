"""pi0.5's classes with small widths: only the constructors differ, because LeRobot's hold the sizes."""

from typing import Any

from lerobot.policies.pi05.modeling_pi05 import PaliGemmaWithExpertModel, PI05Policy, PI05Pytorch
from lerobot.policies.pi_gemma import PaliGemmaForConditionalGenerationWithPiGemma, PiGemmaForCausalLM
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import nn
from transformers.models.auto import CONFIG_MAPPING

from tests.policies.tiny_pi05 import SIZE_PX, VOCABULARY
from tests.policies.tiny_pi05.configuration_tiny_pi05 import TinyPI05Config

WIDE, EXPERT = 32, 16
# LeRobot's attention counts on eight heads.
_GEMMA: dict[str, Any] = {
    "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 4, "num_hidden_layers": 2,
    "vocab_size": len(VOCABULARY), "hidden_activation": "gelu_pytorch_tanh", "dtype": "float32",
}  # fmt: skip


class TinyPaliGemma(PaliGemmaWithExpertModel):
    """Language model, picture encoder and action expert."""

    def __init__(self, config: TinyPI05Config) -> None:
        nn.Module.__init__(self)
        self.freeze_vision_encoder, self.train_expert_only = config.freeze_vision_encoder, config.train_expert_only
        layouts: Any = CONFIG_MAPPING
        text = {**_GEMMA, "model_type": "gemma", "hidden_size": WIDE, "intermediate_size": WIDE}
        vision = {
            "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "image_size": SIZE_PX, "patch_size": 14, "projection_dim": WIDE,
        }  # fmt: skip
        layout = layouts["paligemma"](text_config=text, vision_config=vision, projection_dim=WIDE)
        layout.image_token_index = len(VOCABULARY)
        layout.text_config.use_adarms, layout.text_config.adarms_cond_dim = False, None
        expert = layouts["gemma"](
            **_GEMMA, hidden_size=EXPERT, intermediate_size=EXPERT, use_adarms=True, adarms_cond_dim=EXPERT
        )
        self.paligemma = PaliGemmaForConditionalGenerationWithPiGemma(config=layout)
        self.gemma_expert: Any = PiGemmaForCausalLM(config=expert)
        self.gemma_expert.model.embed_tokens = None
        self.to_bfloat16_for_selected_params("float32")
        self._set_requires_grad()


class TinyPytorch(PI05Pytorch):
    """The flow-matching head on it."""

    def __init__(self, config: TinyPI05Config, rtc_processor: object = None) -> None:
        nn.Module.__init__(self)
        self.config, self.rtc_processor = config, rtc_processor
        self.paligemma_with_expert = TinyPaliGemma(config)
        self.action_in_proj = nn.Linear(config.max_action_dim, EXPERT)
        self.action_out_proj = nn.Linear(EXPERT, config.max_action_dim)
        self.time_mlp_in, self.time_mlp_out = nn.Linear(EXPERT, EXPERT), nn.Linear(EXPERT, EXPERT)
        self.gradient_checkpointing_enabled = False


class TinyPI05Policy(PI05Policy):
    """LeRobot's policy around that."""

    config_class = TinyPI05Config
    name = "tiny_pi05"

    def __init__(self, config: TinyPI05Config, **_: object) -> None:
        PreTrainedPolicy.__init__(self, config)
        config.validate_features()
        self.config = config
        self.init_rtc_processor()
        self.model = TinyPytorch(config, rtc_processor=self.rtc_processor)
        self.reset()
