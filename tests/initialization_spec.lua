-- nn.init: moments, bounds, structure, and bad input.
local optlua = require "optlua"
local nn = optlua.nn
local init = nn.init

local fails = require("fails").containing

local function near(want, got, tolerance)
  assert.is_true(math.abs(want - got) <= tolerance, ("%g expected, got %g"):format(want, got))
end

--- Mean and standard deviation are what they should be, as well as samples show them.
local function check_moments(tensor, mean, std)
  local n = tensor:numel()
  near(mean, tensor:mean():item(), 5 * std / math.sqrt(n))
  near(std, tensor:std():item(), 5 * std / math.sqrt(n))
end

local function check_uniform(tensor, low, high)
  assert.is_true(tensor:min():item() >= low and tensor:max():item() < high)
  check_moments(tensor, (low + high) / 2, (high - low) / math.sqrt(12))
end

describe("nn.init", function()
  before_each(function() optlua.manual_seed(7) end)

  it("fills parameters in place, records nothing, and returns the tensor", function()
    local layer = nn.Linear(3, 2)
    local weight = layer.weight
    assert.equal(weight, init.constant_(weight, 0.5))
    assert.same({ { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 } }, weight:totable())
    assert.is_true(weight.is_leaf and weight.requires_grad)
    assert.same({ 1, 1 }, init.ones_(layer.bias):totable())
    assert.same({ 0, 0 }, init.zeros_(layer.bias):totable())
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, init.eye_(weight):totable())
  end)

  it("draws from optlua's generator, the same from the same seed", function()
    for _, name in ipairs { "uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_",
      "kaiming_uniform_", "kaiming_normal_", "orthogonal_" } do
      optlua.manual_seed(1)
      local first = init[name](optlua.zeros(3, 4)):totable()
      optlua.manual_seed(1)
      assert.same(first, init[name](optlua.zeros(3, 4)):totable(), name)
      assert.same({ 3, 4 }, init[name](optlua.zeros({ 4, 3 }, { dtype = "float64" }):t()).shape)
      assert.equal(0, init[name](optlua.zeros(0, 4)):numel())
    end
  end)

  it("has the bounds and moments that are asked for", function()
    local t = optlua.zeros(100, 200)
    check_uniform(init.uniform_(t), 0, 1)
    check_uniform(init.uniform_(t, -2, 3), -2, 3)
    check_moments(init.normal_(t), 0, 1)
    check_moments(init.normal_(t, 1, { std = 0.02 }), 1, 0.02)
  end)

  it("truncates normal numbers", function()
    local t = init.trunc_normal_(optlua.zeros(100, 200))
    assert.is_true(t:min():item() >= -2 and t:max():item() <= 2)
    check_moments(t, 0, 0.879626)
    t = init.trunc_normal_(optlua.zeros({ 100, 200 }, { dtype = "float64" }), 1, 0.5, 0, 3)
    assert.is_true(t:min():item() >= 0 and t:max():item() <= 3)
    assert.is_true(t:max():item() > 2.5)
    init.trunc_normal_(t, { a = 3, b = 3.5 })
    assert.is_true(t:min():item() >= 3 and t:max():item() <= 3.5)
    assert.is_true(t:mean():item() < 3.25)
  end)

  it("scales by inputs and outputs", function()
    local t = optlua.zeros(60, 20, 3, 2) -- inputs 120, outputs 360
    local bound = 2 * math.sqrt(6 / 480)
    check_uniform(init.xavier_uniform_(t, 2), -bound, bound)
    check_moments(init.xavier_normal_(t), 0, math.sqrt(2 / 480))
    bound = math.sqrt(6 / 120)
    check_uniform(init.kaiming_uniform_(t), -bound, bound)
    bound = math.sqrt(1 / 120)
    check_uniform(init.kaiming_uniform_(t, { a = math.sqrt(5) }), -bound, bound)
    check_moments(init.kaiming_normal_(t, { mode = "fan_out", nonlinearity = "relu" }), 0, math.sqrt(2 / 360))
    check_moments(init.kaiming_normal_(t, 0, "fan_in", "tanh"), 0, 5 / 3 / math.sqrt(120))
  end)

  it("knows the gains", function()
    near(1, init.calculate_gain "conv2d", 0)
    near(5 / 3, init.calculate_gain "tanh", 1e-15)
    near(math.sqrt(2), init.calculate_gain "relu", 1e-15)
    near(math.sqrt(2 / 1.0001), init.calculate_gain "leaky_relu", 1e-15)
    near(1, init.calculate_gain("leaky_relu", 1), 0)
    near(0.75, init.calculate_gain "selu", 0)
  end)

  it("makes orthonormal rows or columns", function()
    for _, shape in ipairs { { 5, 5 }, { 3, 7 }, { 7, 3 }, { 70, 70 }, { 100, 40 }, { 4, 2, 3 }, { 1, 1 } } do
      local t = init.orthogonal_(optlua.zeros(shape, { dtype = "float64" }), 2)
      assert.same(shape, t.shape)
      local matrix = t:reshape(shape[1], -1)
      if matrix.shape[1] > matrix.shape[2] then matrix = matrix:t() end
      local product = matrix:matmul(matrix:t())
      near(0, (product - optlua.eye(product.shape[1], { dtype = "float64" }) * 4):abs():max():item(), 1e-13)
    end
  end)

  it("draws every orthogonal matrix alike", function()
    local positive = 0
    for _ = 1, 400 do
      if init.orthogonal_(optlua.zeros(1, 1)):item() > 0 then positive = positive + 1 end
    end
    assert.is_true(positive > 140 and positive < 260)
  end)

  it("leaves a share of each column empty", function()
    local t = init.sparse_(optlua.zeros(10, 50), 0.33)
    assert.same(optlua.full({ 50 }, 6, { dtype = "int64" }):totable(), t:ne(0):sum { 1 }:totable())
    near(0.01, t:square():sum():div(300):sqrt():item(), 0.002)
  end)

  it("hands channels on", function()
    local t = init.dirac_(optlua.ones(4, 2, 3))
    assert.equal(2, t:sum():item())
    assert.equal(2, t[1][1][2]:item() + t[2][2][2]:item())
    t = init.dirac_(optlua.ones(4, 3, 3, 5), { groups = 2 })
    assert.equal(4, t:sum():item())
    for _, at in ipairs { { 1, 1 }, { 2, 2 }, { 3, 1 }, { 4, 2 } } do
      assert.equal(1, t[at[1]][at[2]][2][3]:item())
    end
  end)

  it("names what does not fit, and then fills nothing", function()
    local t = optlua.zeros(3)
    fails("xavier_normal_: a tensor of at least 2 dimensions expected, got shape (3)", init.xavier_normal_, t)
    fails("eye_: a tensor of 2 dimensions expected, got shape (3)", init.eye_, t)
    fails("dirac_: a tensor of 3 to 5 dimensions expected", init.dirac_, t)
    fails("dirac_: 3 channels cannot be divided into 2 groups", init.dirac_, optlua.zeros(3, 1, 1), 2)
    fails("normal_: tensor: tensor expected, got number", init.normal_, 1)
    fails('normal_: unknown option "stdev" (did you mean "std"?)', init.normal_, t, { stdev = 1 })
    fails("std: expected a number at least 0, got -1", init.normal_, t, 0, -1)
    fails("trunc_normal_: a is 2, b 1; a must be below b", init.trunc_normal_, t, 0, 1, 2, 1)
    fails('unknown nonlinearity "rleu" (did you mean "relu"?)', init.calculate_gain, "rleu")
    fails("constant_: val: is required", init.constant_, t)
    fails("uniform_: draws float32 or float64, not int64", init.uniform_, optlua.zeros({ 2 }, { dtype = "int64" }))
    fails("did you mean kaiming_normal_?", function() return init.kaiming_normal end)
    assert.same({ 0, 0, 0 }, t:totable())
  end)
end)
