-- GPT-2 (Radford et al., 2019) with the names of Hugging Face and nanoGPT, and nn.Linear's layout.
local optlua = require "optlua"
local nn = optlua.nn

local MLP = nn.class "MLP"

function MLP:init(width)
  self.c_fc = nn.Linear(width, 4 * width)
  self.gelu = nn.GELU { approximate = "tanh" }
  self.c_proj = nn.Linear(4 * width, width)
end

function MLP:forward(x) return self.c_proj(self.gelu(self.c_fc(x))) end

local Block = nn.class "Block"

function Block:init(width, heads)
  self.ln_1 = nn.LayerNorm(width)
  self.attn = nn.CausalSelfAttention(width, heads)
  self.ln_2 = nn.LayerNorm(width)
  self.mlp = MLP(width)
end

function Block:forward(x) -- (B,T,C)
  x = x + self.attn(self.ln_1(x))
  return x + self.mlp(self.ln_2(x))
end

local GPT2 = nn.class "GPT2"

function GPT2:init(config)
  local blocks = nn.ModuleList()
  for _ = 1, config.layers do blocks:append(Block(config.width, config.heads)) end
  self.transformer = nn.ModuleDict {
    { "wte", nn.Embedding(config.vocabulary, config.width) },
    { "wpe", nn.Embedding(config.context, config.width) },
    { "h", blocks },
    { "ln_f", nn.LayerNorm(config.width) },
  }
  self.lm_head = nn.Linear(config.width, config.vocabulary, { bias = false })
  self.lm_head.weight = self.transformer.wte.weight
end

function GPT2:forward(ids) -- (B,T) -> (B,T,V)
  local parts = self.transformer
  local x = parts.wte(ids) + parts.wpe(optlua.arange(0, ids.shape[2]))
  for _, block in ipairs(parts.h) do x = block(x) end
  return self.lm_head(parts.ln_f(x))
end

return GPT2
