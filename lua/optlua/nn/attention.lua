--- attention: layers in which positions look at each other (Vaswani et al., 2017).
local blame = require "optlua.blame"
local optlua = require "optlua"
local module = require "optlua.nn.module"
local linear = require "optlua.nn.linear"
local signature = require "optlua.signature"
local packed_attention = require("optlua.core").hidden.packed_attention
local shape_text = require("optlua.shape").text

local some = { required = true, type = "integer", min = 1 }
local probability = { default = 0, min = 0, max = 1 }

--- Checks that width is cut into heads without rest.
local function check_heads(what, width, heads)
  if heads < 1 or width % heads ~= 0 then
    blame(("%s: %d features cannot be cut into %d heads"):format(what, width, heads))
  end
end

-- Causal self-attention ---------------------------------------------------------------------------------

--- Self-attention in which each position sees itself and those before it, as GPT-2 and nanoGPT have it:
--- (…, T, width) -> (…, T, width). c_attn makes query, key and value side by side (3 width features);
--- c_proj maps the joined heads back. dropout falls on the weights and on the result.
---@class nn.CausalSelfAttention: nn.Module
---@field c_attn nn.Linear
---@field c_proj nn.Linear
---@overload fun(width: integer, heads: integer, dropout?: number|table, bias?: boolean, dtype?: string): nn.CausalSelfAttention
local CausalSelfAttention = module.class "CausalSelfAttention"

CausalSelfAttention.signature = signature.new("nn.CausalSelfAttention", {
  { "width", module.size }, { "heads", module.size }, { "dropout", probability }, { "bias", true }, { "dtype", "float32" },
})

function CausalSelfAttention:init(...)
  local opts = self.signature:read(...)
  self.width = opts.width
  self.heads = opts.heads
  check_heads("nn.CausalSelfAttention", self.width, self.heads)
  self.dropout = opts.dropout
  local form = { bias = opts.bias, dtype = opts.dtype }
  self.c_attn = linear.Linear(self.width, 3 * self.width, form)
  self.c_proj = linear.Linear(self.width, self.width, form)
end

CausalSelfAttention.samples = [[
  { { 4, 2 }, t(2, 3, 4) },
  { { 6, 3, { bias = false } }, t(5, 6) },
  { { 4, 1 }, t(2, 4, 3):transpose(2, 3) },
  { { 4, 2 }, t(2, 0, 4) },
]]

function CausalSelfAttention:forward(x)
  local p = self.training and self.dropout or 0
  return self.c_proj(packed_attention(self.c_attn(x), self.heads, nil, p, true)):dropout(self.dropout, self.training)
end

-- Masks -------------------------------------------------------------------------------------------------
-- A mask is a table { may, bias } of what broadcasts to (N, heads, L, S): `may` is uint8, 1 where a row may
-- attend to a key; `bias` is added to the scores. Either may be absent. `causal`: besides, row i attends to keys
-- 1 … i alone, which costs no mask; where extra keys are seen by all, or weights are wanted, `may` says so.

local function both(a, b, join)
  if a and b then return join(a, b) end
  return a or b
end

local function add(a, b) return a + b end

--- Adds a mask in PyTorch's sense: uint8, where 1 hides, or floats to be added.
local function with_mask(mask, given)
  if given and given.dtype == "uint8" then
    mask.may = both(mask.may, given:eq(0), optlua.logical_and)
  elseif given then
    mask.bias = both(mask.bias, given, add)
  end
end

--- Lets all rows attend to `count` more keys at the end.
local function widen(given, count)
  if not given or count == 0 then return given end
  local shape = { table.unpack(given.shape) }
  shape[#shape] = count
  return optlua.cat({ given, optlua.zeros(shape, { dtype = given.dtype }) }, -1)
end

local function check_mask(name, given, dtype, ...)
  if given.dtype ~= "uint8" and given.dtype ~= dtype then
    blame(("nn.MultiheadAttention: %s is %s, wants uint8 or %s"):format(name, given.dtype, dtype))
  end
  local wanted = {}
  for k, shape in ipairs { ... } do
    wanted[k] = shape_text(shape)
    if wanted[k] == shape_text(given) then return end
  end
  blame(("nn.MultiheadAttention: %s has shape %s, wants %s"):format(name, shape_text(given),
    table.concat(wanted, " or ")))
end

--- Gathers the masks of a call, whose query is (N, L, …) and whose key is (N, S, …); `extra` keys will be
--- added.
local function gather_masks(self, opts, query, key, extra)
  local N, L, S, dtype = query.shape[1], query.shape[2], key.shape[2], query.dtype
  local mask, attn, padding = {}, opts.attn_mask, opts.key_padding_mask
  if attn then
    check_mask("attn_mask", attn, dtype, { L, S }, { N * self.num_heads, L, S })
    if attn.ndim == 3 then attn = attn:reshape(N, self.num_heads, L, S) end
    with_mask(mask, widen(attn, extra))
  end
  if padding then
    if padding.ndim == 1 then padding = padding:unsqueeze(1) end
    check_mask("key_padding_mask", padding, dtype, { N, S })
    with_mask(mask, widen(padding:reshape(N, 1, 1, S), extra))
  end
  mask.causal = opts.is_causal and extra == 0 and not opts.need_weights
  if opts.is_causal and not mask.causal then
    local causal = optlua.ones({ L, S }, { dtype = "uint8" }):tril()
    with_mask(mask, widen(1 - causal, extra))
  end
  return mask
end

--- The mask as scaled_dot_product_attention takes it.
local function one_mask(mask)
  return both(mask.may, mask.bias, function(may, bias) return bias:masked_fill(may:eq(0), -math.huge) end)
end

--- Softmax of the scores (N, heads, L, S) under a mask: what the op does, which keeps no weights to return; a row that may attend to nothing gives zeros.
local function masked_weights(scores, mask)
  local bias, hidden = mask.bias, mask.may and mask.may:eq(0)
  if bias then
    local never = bias:eq(-math.huge)
    scores = scores + bias:masked_fill(never, 0)
    hidden = both(hidden, never, optlua.logical_or)
  end
  if not hidden then return scores:softmax(-1) end
  return scores:masked_fill(hidden, -1e30):softmax(-1):masked_fill(hidden, 0)
end

-- Attention of several heads ------------------------------------------------------------------------------

--- Attention of several heads with projections of query, key and value, as PyTorch's: query (L, N, E), key
--- (S, N, kdim), value (S, N, vdim) -> output (L, N, E), weights (N, L, S); with batch_first N comes first;
--- without N, one sequence. Parameters in_proj_weight (3E, E), or q_proj_weight, k_proj_weight and
--- v_proj_weight where kdim or vdim differ from E; in_proj_bias (3E); bias_k, bias_v; out_proj.
---
--- Masks are in PyTorch's sense for this class, contrary to scaled_dot_product_attention's: uint8, where 1 says
--- that a key may NOT be attended to; or floats that are added to the scores. Where nothing may be attended to
--- the weights are zeros.
---@class nn.MultiheadAttention: nn.Module
---@field in_proj_weight optlua.Tensor|nil
---@field in_proj_bias optlua.Tensor|nil
---@field out_proj nn.Linear
---@overload fun(embed_dim: integer, num_heads: integer, opts?: { dropout?: number, bias?: boolean, add_bias_kv?: boolean, add_zero_attn?: boolean, kdim?: integer, vdim?: integer, batch_first?: boolean, dtype?: string }): nn.MultiheadAttention
local MultiheadAttention = module.class "MultiheadAttention"

local function xavier_uniform(opts, rows, cols)
  local bound = math.sqrt(6 / math.max(1, rows + cols))
  return module.Parameter(optlua.zeros({ rows, cols }, { dtype = opts.dtype }):uniform_(-bound, bound))
end

local function zeros(opts, ...) return module.Parameter(optlua.zeros({ ... }, { dtype = opts.dtype })) end

--- As nn.init.xavier_normal_ fills (1, 1, E).
local function xavier_row(opts, width)
  return module.Parameter(optlua.randn({ 1, 1, width }, { dtype = opts.dtype }):div(math.sqrt(math.max(1, width))))
end

local width_of = { required = false, type = "integer", min = 0, doc = "else embed_dim" }

MultiheadAttention.signature = signature.new("nn.MultiheadAttention", {
  { "embed_dim", some }, { "num_heads", some }, { "dropout", probability }, { "bias", true },
  { "add_bias_kv", false }, { "add_zero_attn", false }, { "kdim", width_of }, { "vdim", width_of },
  { "batch_first", false }, { "dtype", "float32" },
})

function MultiheadAttention:init(...)
  local opts = self.signature:read(...)
  self.embed_dim = opts.embed_dim
  self.num_heads = opts.num_heads
  check_heads("nn.MultiheadAttention", self.embed_dim, self.num_heads)
  local E = self.embed_dim
  self.kdim = opts.kdim or E
  self.vdim = opts.vdim or E
  self.dropout = opts.dropout
  self.batch_first = opts.batch_first
  self.add_zero_attn = opts.add_zero_attn
  if self.kdim == E and self.vdim == E then
    self.in_proj_weight = xavier_uniform(opts, 3 * E, E)
  else
    self.q_proj_weight = xavier_uniform(opts, E, E)
    self.k_proj_weight = xavier_uniform(opts, E, self.kdim)
    self.v_proj_weight = xavier_uniform(opts, E, self.vdim)
  end
  if opts.bias then self.in_proj_bias = zeros(opts, 3 * E) end
  if opts.add_bias_kv then
    self.bias_k = xavier_row(opts, E)
    self.bias_v = xavier_row(opts, E)
  end
  self.out_proj = linear.Linear(E, E, { bias = opts.bias, dtype = opts.dtype })
  if opts.bias then self.out_proj.bias:detach():zero_() end
end

MultiheadAttention.inputs = { "query", "key", "value" }
MultiheadAttention.samples = [[
  { { 4, 2 }, t(3, 2, 4), t(5, 2, 4), t(5, 2, 4) },
  { { 4, 2, { batch_first = true } }, t(2, 3, 4), t(2, 5, 4), t(2, 5, 4), { average_attn_weights = false } },
  { { 4, 1, { bias = false } }, t(3, 4), t(5, 4), t(5, 4) },
  { { 4, 2, { kdim = 3, vdim = 5 } }, t(3, 2, 4), t(4, 2, 3), t(4, 2, 5), { need_weights = false } },
  { { 4, 2, { add_bias_kv = true, add_zero_attn = true } }, t(3, 2, 4), t(5, 2, 4), t(5, 2, 4),
    { key_padding_mask = optlua.tensor({ { 0, 0, 1, 0, 1 }, { 0, 0, 0, 0, 1 } }, { dtype = "uint8" }) } },
  { { 4, 2, { batch_first = true } }, t(2, 3, 4), t(2, 3, 4), t(2, 3, 4),
    { attn_mask = optlua.tensor({ { 0, 1, 1 }, { 0, 0, 1 }, { 0, 0, 0 } }, { dtype = "uint8" }), need_weights = false,
      key_padding_mask = optlua.tensor({ { 0, 0, 1 }, { 0, 0, 0 } }, { dtype = "uint8" }) } },
  { { 4, 2 }, t(3, 2, 4), t(5, 2, 4), t(5, 2, 4), { attn_mask = c(4, 3, 5) } },
  { { 4, 2 }, t(3, 4), t(5, 4), t(5, 4), { attn_mask = c(3, 5), need_weights = false } },
  { { 4, 2 }, t(2, 3, 4):transpose(1, 2), t(2, 5, 4):transpose(1, 2), t(2, 5, 4):transpose(1, 2) },
  { { 4, 2 }, t(0, 2, 4), t(5, 2, 4), t(5, 2, 4) },
]]

--- The weight and bias of the projection of part 1 (query), 2 (key) or 3 (value).
local function projection(self, part)
  local E, bias = self.embed_dim, self.in_proj_bias
  if bias then bias = bias:narrow(1, (part - 1) * E + 1, E) end
  if self.in_proj_weight then return self.in_proj_weight:narrow(1, (part - 1) * E + 1, E), bias end
  return part == 1 and self.q_proj_weight or part == 2 and self.k_proj_weight or self.v_proj_weight, bias
end

local function project(self, part, x)
  return optlua.linear(x, projection(self, part))
end

--- (N, L, E) -> (N, heads, L, E / heads)
local function heads_of(self, x)
  return x:reshape(x.shape[1], x.shape[2], self.num_heads, self.embed_dim // self.num_heads):transpose(2, 3)
end

--- Adds what is learned, and zeros, behind the keys or values (N, S, E).
local function extend(self, x, learned)
  local parts, N, E = { x }, x.shape[1], self.embed_dim
  if learned then parts[#parts + 1] = learned:expand(N, 1, E) end
  if self.add_zero_attn then parts[#parts + 1] = optlua.zeros({ N, 1, E }, { dtype = x.dtype }) end
  return #parts > 1 and optlua.cat(parts, 2) or x
end

--- Query, key and value (N, …, E), projected; -> the joined heads (N, L, E), weights (N, heads, L, S) or nil.
local function attend(self, q, k, v, mask, need_weights)
  local p = self.training and self.dropout or 0
  local weights, result
  q, k, v = heads_of(self, q), heads_of(self, k), heads_of(self, v)
  if need_weights then
    local scale = 1 / math.sqrt(self.embed_dim // self.num_heads)
    weights = masked_weights((q * scale):matmul(k:transpose(-2, -1)), mask):dropout(p)
    result = weights:matmul(v)
  else
    result = optlua.scaled_dot_product_attention(q, k, v, one_mask(mask), p, mask.causal)
  end
  return result:transpose(2, 3):reshape(q.shape[1], q.shape[3], self.embed_dim), weights
end

local function check_inputs(self, query, key, value)
  local names, widths = { "query", "key", "value" }, { self.embed_dim, self.kdim, self.vdim }
  local batch, length = self.batch_first and 1 or 2, self.batch_first and 2 or 1
  for part, x in ipairs { query, key, value } do
    if x.ndim ~= query.ndim or x.ndim < 2 or x.ndim > 3 or x.shape[x.ndim] ~= widths[part] then
      blame(("nn.MultiheadAttention: %s has shape %s; 2 or 3 dimensions are wanted, as many in all, the last of %d")
        :format(names[part], shape_text(x), widths[part]))
    end
  end
  local lengths_fit = query.ndim == 2 and key.shape[1] == value.shape[1]
    or query.ndim == 3 and key.shape[length] == value.shape[length] and key.shape[batch] == value.shape[batch]
      and query.shape[batch] == key.shape[batch]
  if not lengths_fit then
    blame(("nn.MultiheadAttention: query of shape %s, key %s and value %s do not fit"):format(
      shape_text(query), shape_text(key), shape_text(value)))
  end
end

--- The inputs as (N, …, features).
local function batches_first(self, x)
  if x.ndim == 2 then return x:unsqueeze(1) end
  return self.batch_first and x or x:transpose(1, 2)
end

--- Gives a result (N, L, E) the form of the inputs.
local function as_given(self, x, ndim)
  if ndim == 2 then return x:squeeze(1) end
  return self.batch_first and x or x:transpose(1, 2)
end

local call_signature = signature.new("nn.MultiheadAttention", {
  { "key_padding_mask", { required = false, type = "tensor" } }, { "need_weights", true },
  { "attn_mask", { required = false, type = "tensor" } }, { "average_attn_weights", true }, { "is_causal", false },
})

---@param query optlua.Tensor
---@param key optlua.Tensor
---@param value optlua.Tensor
---@param ... any key_padding_mask (N, S), need_weights = true, attn_mask (L, S) or (N heads, L, S), average_attn_weights = true, is_causal; or a table of them
---@return optlua.Tensor output
---@return optlua.Tensor|nil weights averaged over heads, or (N, heads, L, S); nil without need_weights
function MultiheadAttention:forward(query, key, value, ...)
  local opts = call_signature:read(...)
  check_inputs(self, query, key, value)
  local ndim, same = query.ndim, query == key and key == value
  local q, k, v = batches_first(self, query), batches_first(self, key), batches_first(self, value)
  local extra = (self.bias_k and 1 or 0) + (self.add_zero_attn and 1 or 0)
  local mask = gather_masks(self, opts, q, k, extra)
  local result, weights
  if same and self.in_proj_weight and extra == 0 and not opts.need_weights then
    local p = self.training and self.dropout or 0
    local packed = optlua.linear(q, self.in_proj_weight, self.in_proj_bias)
    result = packed_attention(packed, self.num_heads, one_mask(mask), p, mask.causal)
  else
    k = extend(self, project(self, 2, k), self.bias_k)
    v = extend(self, project(self, 3, v), self.bias_v)
    result, weights = attend(self, project(self, 1, q), k, v, mask, opts.need_weights)
  end
  result = as_given(self, self.out_proj(result), ndim)
  if weights and opts.average_attn_weights then weights = weights:mean(2) end
  if weights and ndim == 2 then weights = weights:squeeze(1) end
  return result, weights
end

return { CausalSelfAttention = CausalSelfAttention, MultiheadAttention = MultiheadAttention }
