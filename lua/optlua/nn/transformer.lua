--- transformer: layers of attention and feed-forward networks (Vaswani et al., 2017).
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local attention = require "optlua.nn.attention"
local containers = require "optlua.nn.containers"
local dropout = require "optlua.nn.dropout"
local linear = require "optlua.nn.linear"
local normalization = require "optlua.nn.normalization"
local signature = require "optlua.signature"

local size = { required = true, type = "integer", min = 1 }

--- Self-attention and a feed-forward network, each with dropout, a residual and a layer norm (behind it, or in
--- front with norm_first): (T, N, d_model), or (N, T, d_model) with batch_first, or (T, d_model).
---@class nn.TransformerEncoderLayer: nn.Module
---@overload fun(d_model: integer, nhead: integer, opts?: { dim_feedforward?: integer, dropout?: number, activation?: "relu"|"gelu", layer_norm_eps?: number, batch_first?: boolean, norm_first?: boolean, bias?: boolean, dtype?: string }): nn.TransformerEncoderLayer
local TransformerEncoderLayer = module.class "TransformerEncoderLayer"

TransformerEncoderLayer.signature = signature.new("nn.TransformerEncoderLayer", {
  { "d_model", size }, { "nhead", size }, { "dim_feedforward", { default = 2048, integer = true, min = 1 } },
  { "dropout", { default = 0.1, min = 0, max = 1 } },
  { "activation", { default = "relu", choices = { "relu", "gelu" } } }, { "layer_norm_eps", { default = 1e-5, min = 0 } },
  { "batch_first", false }, { "norm_first", false }, { "bias", true }, { "dtype", "float32" },
})

function TransformerEncoderLayer:init(...)
  local d_model, nhead, wide, p, activation, eps, batch_first, norm_first, bias, dtype =
    self.signature:values(...)
  local form = { bias = bias, dtype = dtype }
  local norm = { eps = eps, bias = bias, dtype = dtype }
  self.norm_first = norm_first
  self.activation = activation
  self.self_attn = attention.MultiheadAttention(d_model, nhead,
    { dropout = p, bias = bias, batch_first = batch_first, dtype = dtype })
  self.linear1 = linear.Linear(d_model, wide, form)
  self.dropout = dropout.Dropout(p)
  self.linear2 = linear.Linear(wide, d_model, form)
  self.norm1 = normalization.LayerNorm(d_model, norm)
  self.norm2 = normalization.LayerNorm(d_model, norm)
  self.dropout1 = dropout.Dropout(p)
  self.dropout2 = dropout.Dropout(p)
end

TransformerEncoderLayer.samples = [[
  { { 4, 2, 5, 0 }, t(3, 2, 4) },
  { { 4, 2, { dim_feedforward = 5, dropout = 0, norm_first = true, activation = "gelu", batch_first = true } },
    t(2, 3, 4), { src_key_padding_mask = optlua.tensor({ { 0, 0, 1 }, { 0, 0, 0 } }, { dtype = "uint8" }) } },
  { { 4, 1, 5, { bias = false } }, t(3, 4), { src_mask = c(3, 3) }, eval = true },
]]

--- What TransformerEncoderLayer and TransformerEncoder take behind their input.
local function masks_of(what, first)
  local mask = { required = false, type = "tensor" }
  return signature.new(what, { { first, mask }, { "src_key_padding_mask", mask }, { "is_causal", false } })
end

local layer_masks = masks_of("nn.TransformerEncoderLayer", "src_mask")
local stack_masks = masks_of("nn.TransformerEncoder", "mask")

local function attend(self, x, opts)
  local result = self.self_attn(x, x, x, {
    attn_mask = opts.src_mask, key_padding_mask = opts.src_key_padding_mask, is_causal = opts.is_causal,
    need_weights = false,
  })
  return self.dropout1(result)
end

local function feed_forward(self, x)
  local y = self.linear1(x)
  return self.dropout2(self.linear2(self.dropout(y[self.activation](y))))
end

---@param src optlua.Tensor
---@param ... any src_mask, src_key_padding_mask, as nn.MultiheadAttention takes them, is_causal; or a table of them
---@return optlua.Tensor
function TransformerEncoderLayer:forward(src, ...)
  local opts = layer_masks:read(...)
  if self.norm_first then
    local x = src + attend(self, self.norm1(src), opts)
    return x + feed_forward(self, self.norm2(x))
  end
  local x = self.norm1(src + attend(self, src, opts))
  return self.norm2(x + feed_forward(self, x))
end

--- A stack of num_layers copies of an encoder layer, which all begin with its weights; then perhaps norm.
---@class nn.TransformerEncoder: nn.Module
---@field layers nn.ModuleList
---@overload fun(encoder_layer: nn.Module, num_layers: integer, norm?: nn.Module|table): nn.TransformerEncoder
local TransformerEncoder = module.class "TransformerEncoder"

TransformerEncoder.signature = signature.new("nn.TransformerEncoder", {
  { "encoder_layer", { required = true, type = "any" } }, { "num_layers", size },
  { "norm", { required = false, type = "any" } },
})

function TransformerEncoder:init(...)
  local opts = self.signature:read(...)
  for _, part in ipairs { opts.encoder_layer, opts.norm } do
    if not module.is_module(part) then
      blame("nn.TransformerEncoder: a module was expected, got a " .. type(part))
    end
  end
  self.layers = containers.ModuleList()
  for _ = 1, opts.num_layers do self.layers:append(opts.encoder_layer:clone()) end
  if opts.norm then self.norm = opts.norm end
end

---@param src optlua.Tensor
---@param ... any mask, src_key_padding_mask, as nn.MultiheadAttention takes them, is_causal; or a table of them
---@return optlua.Tensor
function TransformerEncoder:forward(src, ...)
  local opts = stack_masks:read(...)
  local masks = {
    src_mask = opts.mask, src_key_padding_mask = opts.src_key_padding_mask, is_causal = opts.is_causal,
  }
  for _, layer in ipairs(self.layers) do src = layer(src, masks) end
  return rawget(self, "norm") and self.norm(src) or src
end

return { TransformerEncoderLayer = TransformerEncoderLayer, TransformerEncoder = TransformerEncoder }
