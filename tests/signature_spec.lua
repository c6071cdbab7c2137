-- Arguments of layers, losses, functions and distributions: by position in PyTorch's order, and by name.
local fails = require("fails").containing
local kind = require "optlua.nn.kind"
local layers = require "layers"
local optlua = require "optlua"
local signature = require "optlua.signature"
local nn = optlua.nn
local F = nn.functional

-- Classes without a signature, with the reason.
local without_signature = {
  Module = "the root of all classes",
  Sequential = "takes a list of modules", ModuleList = "takes a list of modules", ModuleDict = "takes a list of pairs",
  Identity = "ignores its arguments",
}

local function sample_arguments(class)
  if class.name == "Dropout" then return { {}, { 0.25 } } end
  if class.name == "TransformerEncoder" then
    local layer = nn.TransformerEncoderLayer(4, 2, 5)
    return { { layer, 2 }, { layer, 1, nn.LayerNorm(4) } }
  end
  local list = {}
  for n, sample in ipairs(layers.samples(class, "float32")) do list[n] = sample.arguments end
  return list
end

--- Whether two values are alike: layers of the same fields, tensors of one shape and dtype.
local function alike(a, b, seen)
  if optlua.is_tensor(a) then
    return optlua.is_tensor(b) and a.dtype == b.dtype and table.concat(a.shape, ",") == table.concat(b.shape, ",")
  end
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  if seen[a] == b then return true end
  seen[a] = b
  for key, value in pairs(a) do
    if not alike(value, rawget(b, key), seen) then return false end
  end
  for key in pairs(b) do
    if rawget(a, key) == nil then return false end
  end
  return getmetatable(a) == getmetatable(b)
end

--- What a call makes: the layer, or the message of its error.
local function made(class, ...)
  local ok, result = pcall(class, ...)
  if ok then return result end
  return (tostring(result):gsub("^[^\n]-:%d+: ", ""))
end

--- Makes a layer with the first `count` of its arguments by position, the others by name.
local function split(class, values, count)
  local list, named, given = class.signature.list, {}, {}
  for k, argument in ipairs(list) do
    if k <= count then given[k] = values[argument[1]] else named[argument[1]] = values[argument[1]] end
  end
  if next(named) ~= nil then
    count = count + 1
    given[count] = named
  end
  return made(class, table.unpack(given, 1, count))
end

--- Another legal value of an argument, or nil.
local function another(argument, value)
  local entry = argument[2]
  local option = type(entry) == "table" and entry or { default = entry }
  if type(option.default) == "boolean" then return not value end
  for _, choice in ipairs(option.choices or {}) do
    if choice ~= value then return choice end
  end
  if argument[1] == "dtype" then return "float64" end
  if type(value) == "number" then
    return option.max and value < option.max and (value + option.max) / 2 or value + 1
  end
  if value == nil and (option.type or ""):find "integer" then return 3 end
end

local function check(class, values, what)
  local plain = split(class, values, #class.signature.list)
  for count = 0, #class.signature.list - 1 do
    local mixed = split(class, values, count)
    assert(alike(plain, mixed, {}), ("%s: %d by position, the rest by name: %s and %s"):format(what, count,
      tostring(plain), tostring(mixed)))
  end
end

for name, class in pairs(nn) do
  if kind.is_class(class) and not without_signature[name] then
    describe("nn." .. name, function()
      it("has a signature", function() assert.equal("nn." .. name, class.signature.what) end)

      it("takes its arguments by position and by name", function()
        for n, arguments in ipairs(sample_arguments(class)) do
          local values = class.signature:read(table.unpack(arguments, 1, 20))
          assert(alike(made(class, table.unpack(arguments, 1, 20)), made(class, values), {}), name .. "/" .. n)
          check(class, values, name .. "/" .. n)
        end
      end)

      it("takes each argument with another value by position and by name", function()
        local arguments = sample_arguments(class)[1]
        for _, argument in ipairs(class.signature.list) do
          local values = class.signature:read(table.unpack(arguments, 1, 20))
          local value = another(argument, values[argument[1]])
          if value ~= nil then
            values[argument[1]] = value
            check(class, values, ("%s with %s = %s"):format(name, argument[1], tostring(value)))
          end
        end
      end)

      it("refuses what it does not know", function()
        local arguments = sample_arguments(class)[1]
        local values = class.signature:read(table.unpack(arguments, 1, 20))
        values.unheard_of = 1
        fails(("nn.%s: unknown option \"unheard_of\""):format(name), function() class(values) end)
        local too_many = {}
        for k = 1, #class.signature.list + 1 do too_many[k] = true end
        fails(("nn.%s: at most %d argument"):format(name, #too_many - 1),
          function() class(table.unpack(too_many)) end)
      end)
    end)
  end
end

describe("arguments", function()
  it("stand in PyTorch's order", function()
    local function order(class)
      local words = {}
      for k, argument in ipairs(class.signature.list) do words[k] = argument[1] end
      return table.concat(words, " ")
    end
    assert.equal("in_features out_features bias dtype", order(nn.Linear))
    assert.equal("normalized_shape eps elementwise_affine bias dtype", order(nn.LayerNorm))
    assert.equal("num_embeddings embedding_dim padding_idx dtype", order(nn.Embedding))
    assert.equal("weight ignore_index reduction label_smoothing", order(nn.CrossEntropyLoss))
    assert.equal("weight reduction pos_weight", order(nn.BCEWithLogitsLoss))
    assert.equal("reduction beta", order(nn.SmoothL1Loss))
    assert.equal("num_features eps momentum affine track_running_stats dtype bias", order(nn.BatchNorm1d))
    assert.equal("in_channels out_channels kernel_size stride padding output_padding groups bias dilation dtype",
      order(nn.ConvTranspose2d))
    assert.equal("embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first dtype",
      order(nn.MultiheadAttention))
  end)

  it("of functions are read alike", function()
    local x, y = optlua.tensor { 1, 2, 3 }, optlua.tensor { 1, 0, 1 }
    local by_place = F.poisson_nll_loss(x, y, true, true, 1e-8, "sum"):item()
    assert.equal(by_place, F.poisson_nll_loss(x, y, true, { full = true, reduction = "sum" }):item())
    assert.equal(by_place, F.poisson_nll_loss { input = x, target = y, full = true, reduction = "sum" }:item())
    fails("poisson_nll_loss: target: is required", F.poisson_nll_loss, x)
    local image = optlua.randn(1, 2, 3, 4)
    assert.same(F.interpolate(image, nil, { 2, 1.5 }).shape,
      F.interpolate { input = image, scale_factor = { 2, 1.5 } }.shape)
  end)

  it("of distributions are read alike", function()
    local D = optlua.distributions
    for _, pair in ipairs {
      { D.Normal(1, 2), D.Normal { loc = 1, scale = 2 }, "scale" }, { D.Normal(1, 2), D.Normal(1, { scale = 2 }), "loc" },
      { D.Uniform(1, 2), D.Uniform { low = 1, high = 2 }, "high" }, { D.Exponential(3), D.Exponential { rate = 3 }, "rate" },
      { D.Bernoulli(0.25), D.Bernoulli { probs = 0.25 }, "probs" },
      { D.Bernoulli(nil, 0.5), D.Bernoulli { logits = 0.5 }, "logits" },
    } do assert.equal(pair[1][pair[3]]:item(), pair[2][pair[3]]:item()) end
    assert.same(D.Normal(0, 1):sample(3).shape, D.Normal(0, 1):sample({ sample_shape = 3 }).shape)
    fails('Normal: unknown option "scal" (did you mean "scale"?)', function() D.Normal { loc = 1, scal = 2 } end)
    fails("Normal: at most 2 arguments expected, got 3", function() D.Normal(0, 1, 2) end)
  end)

  it("that may be lists can be empty ones", function()
    local read = signature.reader("f", { { "sizes", { required = true, type = "integer|list" } }, { "bias", true } })
    assert.same({}, (read({})))
    assert.is_true(select(2, read(3, {})))
    fails("f: sizes: is given twice, by position and by name", function() read(3, { sizes = 4 }) end)
  end)
end)
