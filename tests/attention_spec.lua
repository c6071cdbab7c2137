-- Attention: what the shared tests do not see: masks that hide everything, dropout, other forms of a call,
-- bad input.
local fails = require "fails"
local optlua = require "optlua"
local nn = optlua.nn
local attention = optlua.scaled_dot_product_attention

local function mask(rows) return optlua.tensor(rows, { dtype = "uint8" }) end

local function near(a, b, tolerance)
  assert.same({ table.unpack(a.shape) }, { table.unpack(b.shape) })
  assert.is_true((a - b):abs():amax():item() <= (tolerance or 1e-12))
end

local function random(...) return optlua.randn({ ... }, { dtype = "float64", requires_grad = true }) end

before_each(function() optlua.manual_seed(3) end)

describe("scaled_dot_product_attention", function()
  it("gives zeros, and zero gradients, for a row that may attend to nothing", function()
    for _, m in ipairs { mask { { 0, 0, 0 }, { 1, 0, 1 } }, mask { { 0, 0, 0 }, { 1, 0, 1 } }:to "float64":log() } do
      local q, k, v = random(2, 4), random(3, 4), random(3, 2)
      local y = attention(q, k, v, m)
      assert.same({ 0, 0 }, y[1]:totable())
      y:sum():backward()
      assert.same({ 0, 0, 0, 0 }, q.grad[1]:totable())
      assert.same({ 0, 0, 0, 0 }, k.grad[2]:totable())
      near(v.grad:sum(2), optlua.tensor({ v.grad[1]:sum():item(), 0, v.grad[3]:sum():item() }, { dtype = "float64" }))
      assert.is_true(v.grad[1][1]:item() > 0)
    end
  end)

  it("shows NaN among the scores", function()
    local q = optlua.tensor { { 0 / 0 } }
    local y = attention(q, optlua.ones(2, 1), optlua.ones(2, 1)):item()
    assert.is_true(y ~= y)
  end)

  it("takes a mask and is_causal together", function()
    local q, k, v = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    local padding = mask { { 1, 0, 1 } }
    near(attention(q, k, v, padding, { is_causal = true }),
      attention(q, k, v, mask { { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 1 } }))
  end)

  it("serves neighbouring heads of query by one head of key", function()
    local q, k, v = random(2, 6, 3, 2), random(2, 2, 5, 2), random(2, 2, 5, 2)
    local function spread(x) return x:unsqueeze(3):expand(2, 2, 3, 5, 2):reshape(2, 6, 5, 2) end
    local m = mask { { 1, 1, 0, 0, 1 }, { 0, 1, 1, 1, 1 }, { 1, 0, 1, 0, 0 } }
    local grouped = attention(q, k, v, m, { enable_gqa = true })
    local plain = attention(q, spread(k), spread(v), m)
    near(grouped, plain)
    local weights = random(2, 6, 3, 2):detach();
    (plain * weights):sum():backward()
    local expected = { q.grad, k.grad, v.grad }
    q.grad, k.grad, v.grad = nil, nil, nil;
    (grouped * weights):sum():backward()
    for n, x in ipairs { q, k, v } do near(x.grad, expected[n]) end
  end)

  it("lets the heads of the result lie as those of the query do", function()
    local x = random(2, 5, 3, 4)
    local q = x:transpose(2, 3)
    local y = attention(q, q, q)
    assert.is_true(y:transpose(2, 3):is_contiguous())
    near(y, attention(q:contiguous(), q, q))
    assert.is_true(attention(q:contiguous(), q, q):is_contiguous())
  end)

  it("drops weights, the same ones backward", function()
    local q, k, v = random(2, 70, 3), random(2, 70, 3), random(2, 70, 70)
    local function plain() return (q:matmul(k:transpose(2, 3)) * 0.5):softmax(3) end
    local function dropped(value)
      optlua.manual_seed(9)
      return attention(q, k, value, nil, 0.25, false, { scale = 0.5 })
    end
    local kept = (dropped(optlua.eye(70, { dtype = "float64" })) / plain()):detach()
    local share = kept:ne(0):to "float64":mean():item()
    assert.is_true(math.abs(share - 0.75) < 0.02)
    near(kept, kept:ne(0):to "float64" / 0.75, 1e-9);
    (dropped(v) * 2):sum():backward()
    local found = { q.grad, k.grad, v.grad }
    q.grad, k.grad, v.grad = nil, nil, nil;
    ((plain() * kept):matmul(v) * 2):sum():backward()
    for n, x in ipairs { q, k, v } do near(found[n], x.grad, 1e-10) end
  end)

  it("drops every weight where p is 1, whatever it was", function()
    local q, k = random(3, 4), random(3, 4)
    local v = random(3, 4)
    local y = attention(q, k, v, nil, 1)
    assert.equal(0, y:abs():sum():item())
    y:sum():backward()
    for _, x in ipairs { q, k, v } do assert.equal(0, x.grad:abs():sum():item()) end
  end)

  it("draws new numbers at every call, the same on any number of threads", function()
    local q = random(8, 40, 4)
    local function values(threads)
      optlua.manual_seed(2)
      local before = optlua.get_num_threads()
      optlua.set_num_threads(threads)
      local first, second = attention(q, q, q, nil, 0.5), attention(q, q, q, nil, 0.5)
      optlua.set_num_threads(before)
      return first, second
    end
    local first, second = values(1)
    assert.is_true((first - second):abs():amax():item() > 0.1)
    near(first, (values(2)), 1e-12)
  end)

  it("names what does not fit", function()
    local x = optlua.ones(2, 3, 4)
    local function raises(text, ...) fails.containing("scaled_dot_product_attention: " .. text, attention, ...) end
    raises("query of shape (2, 3, 4) does not fit key of shape (2, 3, 5)", x, optlua.ones(2, 3, 5), x)
    raises("key of shape (2, 3, 4) does not fit value of shape (2, 5, 4)", x, x, optlua.ones(2, 5, 4))
    raises("key of shape (5, 3, 4) does not fit query of shape (2, 3, 4)", x, optlua.ones(5, 3, 4), x)
    raises("value of shape (5, 3, 4) does not fit query", x, x, optlua.ones(5, 3, 4))
    raises("value has shape (4), wants (…, positions, features)", x, x, optlua.ones(4))
    raises("query wants float32 or float64, got int64", x:to "int64", x, x)
    raises("query is float32, key is float64", x, x:to "float64", x)
    raises("attn_mask is int64, wants uint8 or float32", x, x, x, optlua.ones({ 3, 3 }, { dtype = "int64" }))
    raises("attn_mask of shape (4, 3) does not broadcast to (2, 3, 3)", x, x, x, optlua.ones(4, 3))
    raises("dropout_p is 1.5; a probability is from 0 to 1", x, x, x, nil, 1.5)
    raises("3 heads of query are not a multiple of the 2 of key", optlua.ones(3, 1, 4), x, x, { enable_gqa = true })
  end)
end)

describe("CausalSelfAttention", function()
  it("shows no position what comes after it", function()
    local layer = nn.CausalSelfAttention(8, 2)
    local x = optlua.randn(1, 5, 8)
    local y = layer(x)
    x[1][4] = 7
    assert.same(y[1]:narrow(1, 1, 3):totable(), layer(x)[1]:narrow(1, 1, 3):totable())
  end)

  it("drops while training only", function()
    local layer, x = nn.CausalSelfAttention(8, 2, { dropout = 0.5 }), optlua.randn(1, 5, 8)
    assert.are_not.same(layer(x):totable(), layer(x):totable())
    layer:eval()
    assert.same(layer(x):totable(), layer(x):totable())
  end)

  it("names its parameters as nanoGPT does, and wants whole heads", function()
    local names = {}
    for name in nn.CausalSelfAttention(4, 2):named_parameters() do names[#names + 1] = name end
    assert.same({ "c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias" }, names)
    fails.containing("nn.CausalSelfAttention: 5 features cannot be cut into 2 heads", nn.CausalSelfAttention, 5, 2)
    fails.containing("nn.CausalSelfAttention: 5 features cannot be cut into 0 heads", nn.CausalSelfAttention, 5, 0)
  end)
end)

describe("MultiheadAttention", function()
  local function layer(opts)
    local result = nn.MultiheadAttention(4, 2, opts):to "float64"
    result.in_proj_bias:detach():uniform_(-1, 1)
    return result
  end

  it("gives self-attention what it gives equal inputs, with and without weights", function()
    local mha, x = layer { batch_first = true }, random(2, 3, 4)
    for _, opts in ipairs {
      {}, { is_causal = true }, { key_padding_mask = mask { { 0, 0, 1 }, { 1, 0, 0 } } },
      { key_padding_mask = mask { { 0, 0, 1 }, { 1, 0, 0 } }, attn_mask = random(3, 3):detach() },
    } do
      opts.need_weights = false
      local fast = mha(x, x, x, opts)
      near(fast, (mha(x, x:clone(), x, opts)))
      opts.need_weights = true
      local result, weights = mha(x, x, x, opts)
      near(fast, result)
      near(weights:sum(3), optlua.ones({ 2, 3 }, { dtype = "float64" }))
    end
  end)

  it("is causal without a mask of (L, L)", function()
    local L, total = 2048, require("optlua.core").hidden.memory
    local mha, x = nn.MultiheadAttention(4, 1, { batch_first = true }), optlua.randn(1, L, 4)
    for _, key in ipairs { x, x:clone() } do -- packed, and apart
      local before = total().total_bytes
      mha(x, key, x, { is_causal = true, need_weights = false })
      assert.is_true(total().total_bytes - before < L * L)
    end
    local encoder = nn.TransformerEncoderLayer(4, 1, 4, { dropout = 0 })
    local before = total().total_bytes
    encoder(x:squeeze(1), { is_causal = true })
    assert.is_true(total().total_bytes - before < L * L)
  end)

  it("lets causal rows see extra keys", function()
    local mha, x = layer { add_bias_kv = true, add_zero_attn = true, batch_first = true }, random(2, 3, 4)
    local result = mha(x, x, x, { is_causal = true })
    local later = optlua.ones({ 3, 3 }, { dtype = "uint8" }):triu(1)
    near(result, (mha(x, x, x, { attn_mask = later })))
    near(result, (mha(x, x, x, { is_causal = true, need_weights = false })))
  end)

  it("gives zeros for weights where nothing may be attended to", function()
    local mha, x = layer(), random(3, 4)
    for _, hidden in ipairs { mask { 1, 1, 1 }, mask { 0, 0, 0 }:to "float64":log() } do
      local _, weights = mha(x, x, x, { key_padding_mask = hidden })
      assert.equal(0, weights:abs():sum():item())
      local y = mha(x, x, x, { key_padding_mask = hidden, need_weights = false })
      near(y, mha.out_proj.bias:expand(3, 4))
      x.grad = nil
      local z, w = mha(x, x, x, { key_padding_mask = hidden });
      (z:sum() + w:sum()):backward()
      assert.equal(0, x.grad:abs():sum():item())
    end
  end)

  it("has PyTorch's parameters in its order", function()
    local function names(opts)
      local list = {}
      for name in nn.MultiheadAttention(4, 2, opts):named_parameters() do list[#list + 1] = name end
      return table.concat(list, " ")
    end
    assert.equal("in_proj_weight in_proj_bias out_proj.weight out_proj.bias", names())
    assert.equal("q_proj_weight k_proj_weight v_proj_weight in_proj_bias bias_k bias_v out_proj.weight out_proj.bias",
      names { kdim = 3, add_bias_kv = true })
    assert.equal("in_proj_weight out_proj.weight", names { bias = false })
  end)

  it("names what does not fit", function()
    local mha = nn.MultiheadAttention(4, 2)
    local x = optlua.ones(3, 2, 4)
    local function raises(text, ...) fails.containing("nn.MultiheadAttention: " .. text, mha, ...) end
    fails.containing("nn.MultiheadAttention: 5 features cannot be cut into 2 heads", nn.MultiheadAttention, 5, 2)
    fails.containing("did you mean \"dropout\"", nn.MultiheadAttention, 4, 2, { dropuot = 0.1 })
    raises("key has shape (3, 2, 5)", x, optlua.ones(3, 2, 5), x)
    raises("query of shape (3, 2, 4), key (5, 2, 4) and value (3, 2, 4) do not fit", x, optlua.ones(5, 2, 4), x)
    raises("attn_mask has shape (2, 3), wants (3, 3) or (4, 3, 3)", x, x, x, { attn_mask = optlua.ones(2, 3) })
    raises("key_padding_mask has shape (3, 2), wants (2, 3)", x, x, x, { key_padding_mask = optlua.ones(3, 2) })
    raises("unknown option \"mask\"", x, x, x, { mask = optlua.ones(3, 3) })
  end)
end)

describe("TransformerEncoder", function()
  it("goes through copies of its layer, then the norm", function()
    local layer = nn.TransformerEncoderLayer(4, 2, 5, 0):to "float64"
    local encoder = nn.TransformerEncoder(layer, 2, { norm = nn.LayerNorm(4):to "float64" })
    local x, hidden = random(2, 3, 4), mask { { 0, 1 }, { 0, 0 }, { 0, 0 } }
    local once = layer(x, { src_key_padding_mask = hidden, is_causal = true })
    local twice = layer(once, { src_key_padding_mask = hidden, is_causal = true })
    near(encoder(x, { src_key_padding_mask = hidden, is_causal = true }), encoder.norm(twice))
    local names = {}
    for name in encoder:named_parameters() do names[#names + 1] = name end
    assert.equal("layers.0.self_attn.in_proj_weight", names[1])
    assert.equal("layers.1.norm2.bias", names[#names - 2])
    assert.equal(26, #names)
  end)

  it("names what does not fit", function()
    fails.containing("nn.TransformerEncoder: a module was expected, got a boolean", nn.TransformerEncoder, true, 2)
    fails.containing("activation: expected one of \"relu\", \"gelu\"", nn.TransformerEncoderLayer, 4, 2,
      { activation = "tanh" })
  end)
end)
