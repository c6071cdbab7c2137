-- What is senseless is refused in one line, before anything changes; what fails half way leaves things as they were.
local optlua = require "optlua"
local core = require "optlua.core"
local fails = require("fails").matching
local files = require "files"
local nn = optlua.nn
local rnn = nn.utils.rnn

--- Runs fn with one allocation failing, each in turn, until it succeeds; `check` sees each failure.
local function fail_in_turn(fn, check)
  local at, ok = 0, false
  while not ok do
    core.hidden.fail_allocations(at, true)
    ok = pcall(fn)
    core.hidden.fail_allocations(-1)
    if not ok then check(at) end
    at = at + 1
  end
  assert.is_true(at > 1)
end

describe("sizes", function()
  it("of images are looked at before memory is taken", function()
    local header = string.pack(">I4c4I4I4BBBBB", 13, "IHDR", 0x7fffffff, 0x7fffffff, 8, 2, 0, 0, 0) .. "\x9b\xab\x9c\x31" -- its CRC
    local bomb = "\x89PNG\r\n\x1a\n" .. header .. string.pack(">I4c4", 0, "IDAT") .. "\x35\xaf\x06\x1e"
    files.with_bytes(bomb, function(path)
      local reserved = core.hidden.memory().total_bytes
      fails("[^:]*: .*2147483647 x 2147483647 pixels are more than max_pixels", optlua.data.read_image, path)
      assert.is_true(core.hidden.memory().total_bytes - reserved < 1 << 24)
    end)
    local packed = files.gzip(files.read "tests/golden/images/rgb.png")
    files.with_bytes(packed, function(path)
      fails("it is neither PNG nor JPEG, but gzipped", optlua.data.read_image, path)
    end)
  end)

  it("of groups and heads do not overflow", function()
    local x, w = optlua.zeros { 1, 0, 3, 3 }, optlua.zeros { 0, 4, 1, 1 }
    fails("groups do not divide the 0 channels", optlua.conv2d, x, w, nil, 1, 0, 1, 1 << 62)
    fails("groups do not divide the 0 channels", optlua.conv2d, x, optlua.zeros { 0, 0, 1, 1 }, nil, 1, 0, 1, 1 << 40)
    assert.same({ 1, 0, 3, 3 }, optlua.conv2d(x, optlua.zeros { 0, 0, 1, 1 }).shape)
    fails("does not hold query, key and value", core.hidden.packed_attention, optlua.ones { 2, 3, 12 }, 1 << 62)
    fails("are not in dimension 1", core.hidden.part, optlua.ones { 3, 4 }, { math.maxinteger }, { -2 })
  end)

  it("of sequences cost memory only where they are real", function()
    local packed = rnn.pack_sequence { optlua.ones { 3, 2 }, optlua.ones { 2, 2 } }
    fails("too large", rnn.pad_packed_sequence, packed, { total_length = 1 << 60 })
    for _, batch_first in ipairs { false, true } do
      local padded = rnn.pad_packed_sequence(packed, { total_length = 5, padding_value = 7, batch_first = batch_first })
      if not batch_first then padded = padded:transpose(1, 2) end
      assert.same({ 2, 5, 2 }, padded.shape)
      assert.same({ { 1, 1, 1, 7, 7 }, { 1, 1, 7, 7, 7 } }, padded:select(3, 2):totable())
    end
    fails("num_layers: expected an integer at least 1 and at most 10000", nn.LSTM, 3, 2, 1 << 40)
  end)

  it("of windows may reach beyond all where they are rounded up", function()
    local x = optlua.tensor { { { 1, 2 } } }
    local up = { ceil_mode = true }
    assert.same({ { { 1.5 } } }, optlua.avg_pool1d(x, 3, up):totable())
    assert.same({ { { 0.75 } } }, optlua.avg_pool1d(x, 4, 3, 1, up):totable())
    assert.same({ { { 0.75 } } }, optlua.avg_pool1d(x, 6, 4, 1, up):totable())
    assert.same({ { { 2 } } }, optlua.max_pool1d(x, 6, 5, 1, 1, up):totable())
    fails("is larger than the padded input", optlua.avg_pool1d, x, 6, 2, 1, up)
    fails("is larger than the padded input", optlua.max_pool1d, x, 2, 2, 0, 3, up)
    fails("is larger than the padded input", optlua.avg_pool1d, x, 3)
  end)
end)

describe("numbers", function()
  it("of masks are booleans or the scores' floats", function()
    local m, x = nn.MultiheadAttention(4, 2, { batch_first = true }), optlua.randn { 1, 2, 4 }
    for _, need in ipairs { true, false } do
      for _, dtype in ipairs { "int64", "float64" } do
        local padding, mask = optlua.zeros({ 1, 2 }, { dtype = dtype }), optlua.zeros({ 2, 2 }, { dtype = dtype })
        fails("key_padding_mask is " .. dtype .. ", wants uint8 or float32", m, x, x, x,
          { key_padding_mask = padding, need_weights = need })
        fails("attn_mask is " .. dtype .. ", wants uint8 or float32", m, x, x, x, { attn_mask = mask, need_weights = need })
      end
    end
  end)

  it("of Normalize are in the image's dtype", function()
    local image = optlua.ones({ 1, 1, 2 }, { dtype = "float64" })
    assert.equal((1 - 0.1) / 0.3, optlua.data.transforms.Normalize({ 0.1 }, { 0.3 })(image):max():item())
    assert.is_true(optlua.data.transforms.Normalize({ 0 }, { 1e-50 })(image):isfinite():all():item() == 1)
  end)

  it("of circles that are cut come from what is left", function()
    local x = optlua.tensor { { 1, 2, 3, 4 } }
    assert.same({ { 2, 3, 4, 2, 3 } }, optlua.pad(x, { -1, 2 }, "circular"):totable())
    assert.same({ { 2, 3, 1, 2, 3 } }, optlua.pad(x, { 2, -1 }, "circular"):totable())
    fails("too much for dimension 2", optlua.pad, x, { -2, 3 }, "circular")
    local w = optlua.ones({ 1, 4 }, { requires_grad = true })
    optlua.pad(w, { -1, 2 }, "circular"):sum():backward()
    assert.same({ { 0, 2, 2, 1 } }, w.grad:totable())
  end)

  it("at a border that is cut off are repeated all the same", function()
    local x = optlua.tensor({ { { 5 } } }, { requires_grad = true })
    assert.same({ { { 5, 5 } } }, optlua.pad(x, { -3, 4 }, "replicate"):totable())
    assert.same({ { { 5, 5 } } }, optlua.pad(x, { 4, -3 }, "replicate"):totable())
    optlua.pad(x, { -3, 4 }, "replicate"):sum():backward()
    assert.equal(2, x.grad:item())
    fails("cuts off more than dimension 3", optlua.pad, x, { -3, 1 }, "replicate")
    fails("cuts off more than dimension 3", optlua.pad, x, { -3, 4 })
  end)

  it("outside the support are impossible", function()
    local d = optlua.distributions
    assert.equal(-math.huge, d.Exponential(2):log_prob(-1):item())
    assert.equal(0, d.Exponential(1):log_prob(0):item())
    assert.equal(-math.huge, d.Bernoulli({ probs = 0.3 }):log_prob(7):item())
    assert.equal(-math.huge, d.Bernoulli({ probs = 0.3 }):log_prob(0.5):item())
    assert.is_true(math.abs(math.log(0.3) - d.Bernoulli({ probs = 0.3 }):log_prob(1):item()) < 1e-6)
    fails("logits: every element must be", d.Categorical, { logits = optlua.full({ 2 }, -math.huge) })
  end)
end)

describe("what PyTorch refuses", function()
  it("is refused", function()
    local F, x = nn.functional, optlua.ones { 2 }
    fails("celu: alpha is 0", F.celu, x, 0)
    fails("celu: alpha is 0", nn.CELU(0), x)
    fails("hardtanh: min_val is 3, above max_val, %-3", F.hardtanh, x, 3, -3)
    fails("softshrink: lambd is %-1, wants at least 0", F.softshrink, x, -1)
    fails("embed_dim: expected an integer at least 1", nn.MultiheadAttention, 0, 1)
    fails("lengths%[1%] is 2, outside", rnn.pack_padded_sequence, optlua.ones { 2, 1, 1 }, { "2" })
    local packed, lstm = rnn.pack_sequence { optlua.ones { 3, 2 } }, nn.LSTM(2, 2)
    fails("lengths: a PackedSequence has its own", lstm, packed, nil, { lengths = { 3 } })
    fails("output_size%[1%]: expected an integer at least 1, got false", nn.AdaptiveAvgPool2d, { false, 2 })
    fails("more than one value a group is needed; an input of shape %(1, 2%) has one", F.group_norm, optlua.ones { 1, 2 }, 2)
    assert.same({ 2, 2 }, F.group_norm(optlua.ones { 2, 2 }, 2).shape)
    local transposed = nn.ConvTranspose1d(1, 1, 2)
    fails("output_size: expected an integer or a list", transposed, optlua.ones { 1, 1, 3 }, "4")
    fails("output_size%[1%]: expected an integer", transposed, optlua.ones { 1, 1, 3 }, { "4" })
    packed.data = nil
    fails("data of the PackedSequence: tensor expected, got nil", lstm, packed)
  end)

  it("and so are logits that are none, and what is no vocabulary", function()
    local generate, v = optlua.data.generate, optlua.data.vocabulary "abc"
    local Fixed = nn.class "Fixed"
    function Fixed:forward(ids) return optlua.tensor(self.logits):expand(1, ids.shape[2], 3) end
    local model = Fixed()
    model.logits = { 1, 3, 2 }
    assert.equal("abbb", generate(model, v, { prompt = "a", tokens = 3, temperature = 1e-320 }))
    model.logits = { 1, 0 / 0, 2 }
    fails("^tests/refusals_spec.lua:%d+: data.generate: the greatest of the model's logits is NaN",
      function() local text = generate(model, v, { prompt = "a" }) return text end)
    local odd = { encode = function() return 3 end, decode = function() return "" end }
    fails("vocabulary: its encode gives a number", generate, model, odd, { prompt = "a" })
    fails("context: expected an integer at least 1 and at most", optlua.data.text, "x", { context = math.maxinteger })
  end)

  it("but not NaN where it marks", function()
    local padded = rnn.pad_sequence({ optlua.ones { 2 }, optlua.ones { 1 } }, { padding_value = 0 / 0 })
    assert.equal(1, padded:isnan():sum():item())
    assert.equal(3, nn.init.constant_(optlua.ones { 3 }, 0 / 0):isnan():sum():item())
    fails("std: expected a number", nn.init.normal_, optlua.ones { 3 }, 0, 0 / 0)
  end)

  it("nor the mark before a text", function()
    files.with_bytes("\xef\xbb\xbfabcabcabc", function(path)
      local set = optlua.data.text(path, { context = 2, validation = 0 })
      assert.same({ 3, 9 }, { #set.vocabulary, #set.tokens })
      assert.equal(12, #optlua.data.text(path, { context = 2, validation = 0, level = "byte" }).tokens)
    end)
  end)
end)

describe("nn.Dropout", function()
  it("with inplace changes its input", function()
    local drop, x = nn.Dropout(0.5, { inplace = true }), optlua.ones { 100 }
    local y = drop(x)
    assert.is_true(x:equal(y) and x:eq(0):sum():item() > 0)
    assert.equal("Dropout(p=0.5, inplace=true)", tostring(drop))
    fails("leaf", drop, optlua.ones({ 3 }, { requires_grad = true }))
    local w = optlua.ones({ 50 }, { requires_grad = true })
    local z = w * 1
    drop(z):sum():backward()
    assert.is_true(w.grad:equal(z:detach()))
    x = optlua.ones { 5 }
    assert.is_true(drop:eval()(x):equal(optlua.ones { 5 }))
  end)
end)

describe("what fails half way", function()
  it("leaves a layer without its norm", function()
    local utils = nn.utils
    for _, norm in ipairs {
      utils.weight_norm, utils.spectral_norm, utils.parametrizations.weight_norm, utils.parametrizations.spectral_norm,
    } do
      local layer, x = nn.Linear(3, 2), optlua.ones { 3 }
      local before = layer(x)
      fail_in_turn(function() norm(layer) end, function() assert.is_true(before:equal(layer(x))) end)
    end
  end)

  it("leaves the statistics of batch norm", function()
    local layer, x = nn.BatchNorm1d(2), optlua.randn { 4, 2 }
    fail_in_turn(function() layer(x) end, function()
      assert.equal(0, layer.num_batches_tracked:item())
      assert.is_true(layer.running_mean:equal(optlua.zeros { 2 }))
    end)
    assert.equal(1, layer.num_batches_tracked:item())
  end)

  it("leaves the dtype of a model", function()
    local model = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }
    fail_in_turn(function() model:to "float64" end, function()
      for _, parameter in model:named_parameters() do assert.equal("float32", parameter.dtype) end
    end)
  end)

  it("leaves a weight that was to be filled", function()
    for _, fill in ipairs { nn.init.trunc_normal_, function(w) nn.init.sparse_(w, 0.5) end } do
      local weight = optlua.full({ 3, 3 }, 5)
      fail_in_turn(function() fill(weight) end, function() assert.is_true(weight:eq(5):all():item() == 1) end)
    end
  end)
end)

describe("a layer", function()
  it("that is given no tensor says so, at the script's line", function()
    local function of(class, ...)
      local layer = class(...)
      return function(...) local y = layer(...) return y end
    end
    local here = "^tests/refusals_spec.lua:%d+: nn%."
    for _, layer in ipairs {
      of(nn.ZeroPad2d, 1), of(nn.BatchNorm1d, 2), of(nn.Flatten), of(nn.Softmin, 1), of(nn.Linear, 2, 2), of(nn.Dropout),
      of(nn.GRUCell, 2, 2), of(nn.MSELoss), of(nn.HuberLoss), of(nn.MultiheadAttention, 4, 2), of(nn.CosineSimilarity),
      of(nn.ConvTranspose1d, 1, 1, 1), of(nn.TransformerEncoderLayer, 4, 2), of(nn.LayerNorm, 2),
    } do
      fails(here .. "%w+: %w+: tensor expected, got a number", layer, 3)
      fails(here .. "%w+: %w+: tensor expected, got nothing", layer)
      fails(here .. "%w+: %w+: tensor expected, got a table", layer, { 1, 2 })
    end
    fails(here .. "MultiheadAttention: key: tensor expected, got nothing", of(nn.MultiheadAttention, 4, 2), optlua.ones { 2, 4 })
    fails(here .. "TripletMarginLoss: negative: tensor expected, got nothing", of(nn.TripletMarginLoss), optlua.ones { 2 },
      optlua.ones { 2 })
    assert.equal(3, nn.Identity()(3))
    local Own = nn.class("Own", nn.Linear)
    function Own:forward(list) return self.super.forward(self, list[1]) end
    assert.same({ 2 }, Own(3, 2)({ optlua.ones { 3 } }).shape)
  end)

  it("whose methods are called with a dot says so", function()
    local layer = nn.Linear(2, 2)
    for _, name in ipairs { "eval", "train", "parameters", "state_dict", "type", "clone", "save" } do
      fails("^tests/refusals_spec.lua:%d+: " .. name .. ": a module expected, got nothing; methods are called with a colon",
        function() local y = layer[name]() return y end)
    end
  end)

  it("whose members were replaced or removed says so", function()
    local layer = nn.Linear(2, 2)
    layer.weight = 3
    fails("^tests/refusals_spec.lua:%d+: Linear.weight: was a parameter, and is now a number",
      function() local y = layer(optlua.ones { 2 }) return y end)
    local norm = nn.BatchNorm1d(2)
    norm.num_batches_tracked = nil
    assert.same({ 3, 2 }, norm(optlua.randn { 3, 2 }).shape)
  end)
end)
