-- Activations at their edges, in place, and on bad input. Their numbers and gradients: registry_spec and layers_spec.
local optlua = require "optlua"
local nn = optlua.nn

local inf = math.huge

local function same(a, b) return a == b or (a ~= a and b ~= b) or math.abs(a - b) < 1e-6 * math.abs(b) end

local function check(expected, tensor)
  local values = tensor:flatten():totable()
  assert.equal(#expected, #values)
  for k, value in ipairs(values) do
    if not same(value, expected[k]) then error(("element %d is %s, not %s"):format(k, value, expected[k]), 2) end
  end
end

describe("activations of huge, infinite and undefined numbers:", function()
  local edges = { -inf, -1e4, 1e4, inf, 0 / 0 }
  local nan = 0 / 0
  for name, expected in pairs {
    ReLU6 = { 0, 0, 6, 6, nan }, LeakyReLU = { -inf, -100, 1e4, inf, nan }, ELU = { -1, -1, 1e4, inf, nan },
    CELU = { -1, -1, 1e4, inf, nan }, SELU = { -1.7580993, -1.7580993, 10507.01, inf, nan },
    LogSigmoid = { -inf, -1e4, 0, 0, nan }, Mish = { nan, 0, 1e4, inf, nan }, SiLU = { nan, 0, 1e4, inf, nan },
    Hardtanh = { -1, -1, 1, 1, nan }, Hardsigmoid = { 0, 0, 1, 1, nan }, Softplus = { 0, 0, 1e4, inf, nan },
    Softsign = { nan, -0.9999, 0.9999, nan, nan }, Tanhshrink = { -inf, -9999, 9999, inf, nan },
    Hardshrink = { -inf, -1e4, 1e4, inf, nan }, Softshrink = { -inf, -9999.5, 9999.5, inf, nan },
  } do
    for _, dtype in ipairs { "float32", "float64" } do
      it(name .. " in " .. dtype, function() check(expected, nn[name]()(optlua.tensor(edges, { dtype = dtype }))) end)
    end
  end

  it("gradients stay finite where numbers are huge", function()
    for _, name in ipairs { "ELU", "CELU", "SELU", "LogSigmoid", "Mish", "SiLU", "GELU", "Softplus", "Tanhshrink" } do
      local x = optlua.tensor({ -1e4, -100, 100, 1e4 }, { requires_grad = true })
      nn[name]()(x):sum():backward()
      for _, g in ipairs(x.grad:totable()) do assert.is_true(g == g and math.abs(g) < 1.2, name) end
    end
  end)

  it("softmax of large numbers is finite, and of nothing but -inf is NaN", function()
    local large, nothing = optlua.tensor { 1e4, 1e4 + 1 }, optlua.tensor { -inf, -inf }
    check({ 0.26894143, 0.73105854 }, nn.Softmax(1)(large))
    check({ -1.3132617, -0.31326166 }, nn.LogSoftmax(1)(large))
    check({ 0.73105854, 0.26894143 }, nn.Softmin(1)(large))
    check({ 0.26894143, 0.73105854 }, nn.Softmin(1)(-large))
    check({ nan, nan }, nn.Softmax(1)(nothing))
    check({ nan, nan }, nn.LogSoftmax(1)(nothing))
    check({ nan, nan }, nn.Softmin(1)(-nothing))
    check({ 0, 1 }, nn.Softmax(-1)(optlua.tensor { -inf, 3 }))
  end)
end)

describe("activations in place:", function()
  local names = { "ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardtanh", "Hardsigmoid",
    "Hardswish" }

  it("write what they give, and have the same gradient", function()
    for _, name in ipairs(names) do
      local plain, over = nn[name](), nn[name] { inplace = true }
      local a = optlua.tensor({ -2, -0.5, 0.5, 7 }, { requires_grad = true })
      local b = a:detach():clone()
      b.requires_grad = true
      local y, before = plain(a), b * 1
      local z = over(before)
      assert.equal(before, z, name)
      assert.same(y:totable(), before:totable(), name)
      y:square():sum():backward()
      z:square():sum():backward()
      assert.same(a.grad:totable(), b.grad:totable(), name)
    end
  end)

  it("refuse a leaf that wants a gradient; backward refuses when they overwrote what it needs", function()
    for _, name in ipairs(names) do
      local over = nn[name] { inplace = true }
      local leaf = optlua.ones(3, { requires_grad = true })
      assert.error_matches(function() over(leaf) end, "a leaf that requires a gradient cannot be changed in place")
      local saved = leaf * 1
      local y = saved:silu()
      over(saved)
      assert.error_matches(function() y:sum():backward() end, "changed in place")
    end
  end)

  it("print inplace", function()
    assert.equal("LeakyReLU(negative_slope=0.2, inplace=true)", tostring(nn.LeakyReLU(0.2, true)))
    assert.equal("ReLU()", tostring(nn.ReLU()))
  end)
end)

describe("activations refuse", function()
  local x = optlua.zeros(2, 3)

  it("options and arguments that they do not know", function()
    assert.error_matches(function() nn.LeakyReLU { slope = 1 } end, "unknown option \"slope\"")
    assert.error_matches(function() nn.ReLU(false, 1) end, "at most 1 argument expected")
    assert.error_matches(function() nn.Tanh { inplace = true } end, "unknown option")
    assert.error_matches(function() nn.Threshold(1) end, "value: is required")
    assert.error_matches(function() nn.Softmax() end, "dim: is required")
    assert.error_matches(function() nn.PReLU(0) end, "num_parameters")
    assert.error_matches(function() nn.ELU("x") end, "alpha")
  end)

  it("shapes that do not fit", function()
    assert.error_matches(function() nn.GLU()(x) end, "dimension 2 has the odd size 3")
    assert.error_matches(function() nn.GLU()(optlua.tensor(1)) end, "0%-dimensional")
    assert.error_matches(function() nn.PReLU(2)(x) end, "one for each of 3 channels")
    assert.error_matches(function() nn.PReLU(2)(optlua.zeros(2)) end, "one for each of 1 channels")
    assert.error_matches(function() nn.Softmax(3)(x) end, "softmax")
    assert.error_matches(function() nn.Softmax(0)(x) end, "softmax")
  end)

  it("integers and bfloat16", function()
    assert.error_matches(function() nn.Mish()(optlua.tensor({ 1 }, { dtype = "int64" })) end, "int64")
    assert.error_matches(function() nn.PReLU()(x:to "float64") end, "float32")
    assert.error_matches(function() nn.GLU()(optlua.zeros(2):to "bfloat16") end, "bfloat16 stores")
  end)
end)
