-- Normalisation layers beyond their numbers (which registry_spec and layers_spec test): running statistics, single
-- values, large numbers, bad input.
local optlua = require "optlua"
require("optlua.core").hidden.poison_memory(true)
local nn = optlua.nn

local fails = require("fails").matching

local function near(expected, tensor)
  local values = tensor:flatten():totable()
  assert.equal(#expected, #values)
  for k, value in ipairs(values) do
    local close = math.abs(value - expected[k]) <= 1e-5 * math.max(1, math.abs(expected[k])) -- false for NaN
    if not close then
      error(("element %d is %s, not %s"):format(k, value, expected[k]), 2)
    end
  end
end

describe("running statistics", function()
  it("move by momentum, with the unbiased variance, in training alone", function()
    local norm, x = nn.BatchNorm1d(1, { momentum = 0.25 }), optlua.tensor { { 1 }, { 3 } }
    norm(x)
    near({ 0.5 }, norm.running_mean)
    near({ 0.75 + 0.25 * 2 }, norm.running_var)
    assert.equal(1, norm.num_batches_tracked:item())
    assert.equal("int64", norm.num_batches_tracked.dtype)
    norm:eval()(x)
    near({ 0.5 }, norm.running_mean)
    assert.equal(1, norm.num_batches_tracked:item())
  end)

  it("are the average of all batches when momentum is false", function()
    local norm = nn.BatchNorm1d(1, { momentum = false })
    norm(optlua.tensor { { 1 }, { 3 } })
    near({ 2 }, norm.running_mean)
    near({ 2 }, norm.running_var)
    norm(optlua.tensor { { 5 }, { 9 } })
    near({ 4.5 }, norm.running_mean)
    near({ 5 }, norm.running_var)
    norm:reset_running_stats()
    near({ 0 }, norm.running_mean)
    near({ 1 }, norm.running_var)
    assert.equal(0, norm.num_batches_tracked:item())
  end)

  it("are used, and frozen, in evaluation, where gradients take them as constants", function()
    local norm = nn.BatchNorm2d(1):eval()
    norm.running_mean:fill_(2)
    norm.running_var:fill_(4)
    local x = optlua.tensor({ { { { 6 } } } }, { requires_grad = true })
    local y = norm(x)
    near({ 4 / math.sqrt(4 + 1e-5) }, y)
    y:sum():backward()
    near({ 1 / math.sqrt(4 + 1e-5) }, x.grad)
    near({ 2 }, norm.running_mean)
  end)

  it("stay with a channel whose batch is not finite", function()
    local norm = nn.BatchNorm1d(2)
    norm(optlua.tensor { { 1, 0 / 0 }, { 3, 1 } })
    near({ 0.2, 0 }, norm.running_mean)
    near({ 1.1, 1 }, norm.running_var)
  end)

  it("stay when a batch is empty, or refused", function()
    local norm = nn.BatchNorm1d(2)
    norm(optlua.zeros(0, 2))
    fails("more than one value", norm, optlua.zeros(1, 2))
    near({ 0, 0 }, norm.running_mean)
    near({ 1, 1 }, norm.running_var)
  end)

  it("are saved, and load", function()
    local norm, other = nn.BatchNorm2d(2), nn.BatchNorm2d(2)
    norm(optlua.randn(3, 2, 4, 4))
    other:load_state_dict(norm:state_dict())
    assert.same(norm.running_var:totable(), other.running_var:totable())
    assert.equal(1, other.num_batches_tracked:item())
  end)

  it("of instance norms are averages over the items", function()
    local norm = nn.InstanceNorm1d(1, { track_running_stats = true, momentum = 0.5 })
    norm(optlua.tensor { { { 1, 3 } }, { { 5, 9 } } })
    near({ 2.25 }, norm.running_mean)
    near({ 0.5 + 0.5 * 5 }, norm.running_var)
  end)
end)

describe("a single value a channel", function()
  it("is refused in training, and never makes a variance NaN", function()
    local flat, image, instance = nn.BatchNorm1d(3), nn.BatchNorm2d(3), nn.InstanceNorm1d(3)
    fails("more than one value a channel; an input of shape %(1, 3%)", flat, optlua.ones(1, 3))
    fails("more than one value a channel", flat, optlua.ones(1, 3, 1))
    fails("more than one value a channel", image, optlua.ones(1, 3, 1, 1))
    fails("more than one value a channel", instance, optlua.ones(4, 3, 1))
    fails("more than one value", nn.BatchNorm1d(3, { track_running_stats = false }):eval(), optlua.ones(1, 3))
    near({ 1, 1, 1 }, flat.running_var)
    near({ 1, 1, 1 }, image.running_var)
    assert.equal(0, image.num_batches_tracked:item())
  end)

  it("is fine in evaluation, and two are fine in training", function()
    near({ 1, 1, 1 }, nn.BatchNorm1d(3, { eps = 0 }):eval()(optlua.ones(1, 3)))
    local norm = nn.BatchNorm1d(1)
    norm(optlua.ones(2, 1))
    near({ 0.9 }, norm.running_var)
    near({ 0, 0, 0, 0 }, nn.GroupNorm(2, 2)(optlua.ones(2, 2)):flatten())
  end)
end)

describe("large numbers keep their variance", function()
  local row = { 40000, 40001, 40002, 40003 }
  local expected = { -1.34163542, -0.44721181, 0.44721181, 1.34163542 }
  it("in every norm", function()
    near(expected, nn.BatchNorm1d(1)(optlua.tensor(row):unsqueeze(2)))
    near(expected, nn.BatchNorm2d(1)(optlua.tensor(row):reshape(1, 1, 2, 2)))
    near(expected, nn.GroupNorm(1, 4)(optlua.tensor(row):unsqueeze(1)))
    near(expected, nn.InstanceNorm1d(1)(optlua.tensor(row):reshape(1, 1, 4)))
  end)
end)

describe("RMSNorm", function()
  it("takes the epsilon of the input's dtype unless told otherwise", function()
    local tiny = 2 ^ -30
    near({ 1, 1 }, nn.RMSNorm(2, { dtype = "float64" })(optlua.full({ 2 }, tiny * 2 ^ 12, { dtype = "float64" })))
    near({ 1 / math.sqrt(2) }, nn.RMSNorm(1)(optlua.full({ 1 }, 2 ^ -11.5)))
    assert.equal("RMSNorm((2), eps=nil, elementwise_affine=true)", tostring(nn.RMSNorm(2)))
  end)
end)

describe("norms refuse", function()
  it("arguments that they do not know or cannot be", function()
    fails("unknown option \"mometum\" %(did you mean \"momentum\"%?%)", nn.BatchNorm2d, 3, { mometum = 1 })
    fails("momentum: expected a number, or false", nn.BatchNorm2d, 3, { momentum = true })
    fails("eps", nn.BatchNorm2d, 3, -1)
    fails("num_features", nn.InstanceNorm2d, 2.5)
    fails("4 channels cannot be cut into 3 groups", nn.GroupNorm, 3, 4)
    fails("num_groups", nn.GroupNorm, 0, 4)
  end)

  it("inputs that do not fit", function()
    fails("BatchNorm2d: an input of 4 dimensions is expected, got shape %(2, 3%)", nn.BatchNorm2d(3), optlua.ones(2, 3))
    fails("2 or 3 dimensions", nn.BatchNorm1d(3), optlua.ones(3))
    fails("running_mean has shape %(3%), the input has 2 channels", nn.BatchNorm1d(3), optlua.ones(4, 2))
    fails("weight has shape %(4%), the input has 2 channels", nn.GroupNorm(2, 4), optlua.ones(4, 2))
    fails("float64", nn.BatchNorm1d(3), optlua.ones(2, 3):to "float64")
    fails("bfloat16 stores", nn.GroupNorm(1, 3), optlua.ones(2, 3):to "bfloat16")
    fails("does not end in the normalized shape", nn.RMSNorm(3), optlua.ones(2, 4))
    fails("come together", optlua.batch_norm, optlua.ones(2, 3), optlua.ones(3))
    fails("are needed unless", optlua.batch_norm, optlua.ones(2, 3))
    fails("expanded", optlua.batch_norm, optlua.ones(2, 3), optlua.zeros(1):expand(3), optlua.ones(3), { training = true })
  end)

  it("have the role norm", function()
    for _, class in ipairs { "BatchNorm1d", "BatchNorm2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "RMSNorm" } do
      assert.equal("norm", nn[class].role)
    end
  end)
end)

describe("bits", function()
  it("are the same on one thread and on two", function()
    local threads = optlua.get_num_threads()
    local function bits(count)
      optlua.set_num_threads(count)
      optlua.manual_seed(3)
      local all = {}
      for _, shape in ipairs { { 64, 32, 8, 9 }, { 700, 64 }, { 40, 300, 3 } } do
        local x = optlua.randn(shape)
        local C = shape[2]
        for _, norm in ipairs { #shape == 4 and nn.BatchNorm2d(C) or nn.BatchNorm1d(C), nn.GroupNorm(4, C) } do
          local leaf = x:clone()
          leaf.requires_grad = true
          norm(leaf):square():mean():backward()
          all[#all + 1] = leaf.grad:flatten()
          all[#all + 1] = norm.weight.grad
        end
      end
      return optlua.cat(all):totable()
    end
    local one, two = bits(1), bits(2)
    optlua.set_num_threads(threads)
    for k = 1, #one do
      if one[k] ~= two[k] then error(("element %d differs"):format(k)) end
    end
  end)
end)

describe("norms of inputs of no values", function()
  local function gradients(f, shape, channels)
    local x, w, b = optlua.zeros(shape), optlua.ones(channels), optlua.ones(channels)
    for _, leaf in ipairs { x, w, b } do leaf.requires_grad = true end
    local y = f(x, w, b)
    assert.same(shape, { table.unpack(y.shape) })
    y:backward(y:detach())
    near({}, x.grad)
    for _, leaf in ipairs { w, b } do
      local zeros = {}
      for k = 1, leaf:numel() do zeros[k] = 0 end
      near(zeros, leaf.grad)
    end
  end

  for _, shape in ipairs { { 0, 4, 3 }, { 2, 4, 0 }, { 0, 4, 0 }, { 0, 4, 20 }, { 2, 4, 0, 5 } } do
    it(("have gradients of zeros: (%s)"):format(table.concat(shape, ", ")), function()
      gradients(function(x, w, b) return optlua.batch_norm(x, { weight = w, bias = b, training = true }) end, shape, 4)
      gradients(function(x, w, b)
        return optlua.batch_norm(x, optlua.zeros(4), optlua.ones(4), w, b)
      end, shape, 4)
      gradients(function(x, w, b) return optlua.group_norm(x, 2, w, b) end, shape, 4)
      gradients(function(x, w, b) return optlua.instance_norm(x, { weight = w, bias = b }) end, shape, 4)
      gradients(function(x, w, b) return optlua.layer_norm(x, shape[#shape], w, b) end, shape, shape[#shape])
    end)
  end
end)
