-- nn.utils: clipping, parameters as a vector, weights that are computed from others.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim
local utils = nn.utils

local fails = require("fails").containing

local function double(list) return optlua.tensor(list, { dtype = "float64" }) end

local function near(want, got)
  want = optlua.is_tensor(want) and want:detach() or double(want)
  assert.same(want.shape, got.shape)
  assert.is_true((want - got:detach()):abs():max():item() < 1e-12, ("%s expected, got %s"):format(want, got))
end

local function names(layer)
  local list = {}
  for name in layer:named_parameters() do list[#list + 1] = name end
  for name in layer:named_buffers() do list[#list + 1] = name end
  return list
end

describe("gradients", function()
  local function with_grad(...)
    local list = {}
    for k, grad in ipairs { ... } do
      list[k] = optlua.zeros_like(grad)
      list[k].requires_grad = true
      list[k].grad = grad
    end
    return list
  end

  it("are clipped by value, those that are there", function()
    local list = with_grad(double { -3, 0.5 }, double { { 2 } })
    list[3] = optlua.zeros(2)
    list[3].requires_grad = true
    utils.clip_grad_value_(list, 1)
    assert.same({ -1, 0.5 }, list[1].grad:totable())
    assert.same({ { 1 } }, list[2].grad:totable())
    assert.is_nil(list[3].grad)
    fails("clip_grad_value_: clip_value: expected a number at least 0, got -1", utils.clip_grad_value_, list, -1)
    fails("clip_grad_value_: parameters are a module, an iterator or a list", utils.clip_grad_value_, 3, 1)
  end)

  it("have a norm together", function()
    local list = { double { 3, 0 }, double { { -4 } } }
    assert.equal(5, utils.get_total_norm(list))
    assert.equal(7, utils.get_total_norm(list, 1))
    assert.equal(4, utils.get_total_norm(list, math.huge))
    assert.equal(0, utils.get_total_norm {})
    list[3] = double { 0 / 0 }
    assert.is_true(utils.get_total_norm(list) ~= utils.get_total_norm(list))
    fails("get_total_norm: the norm is not finite", utils.get_total_norm, list, { error_if_nonfinite = true })
  end)
end)

describe("parameters as a vector", function()
  it("go there and back", function()
    local model = nn.Sequential { nn.Linear(2, 3), nn.Linear(3, 1) }
    local vector = utils.parameters_to_vector(model)
    assert.same({ 13 }, vector.shape)
    assert.equal(model:get_parameter("1.bias"):item(), vector[13]:item())
    vector:sum():backward()
    assert.same({ 1, 1, 1 }, model:get_parameter("0.bias").grad:totable())
    utils.vector_to_parameters(optlua.arange(13):to "float32", model)
    assert.same({ { 0, 1 }, { 2, 3 }, { 4, 5 } }, model:get_parameter("0.weight"):totable())
    assert.same({ 12 }, model:get_parameter("1.bias"):totable())
    assert.is_true(model:get_parameter("1.bias").is_leaf)
  end)

  it("must fit, or nothing is written", function()
    local model = nn.Linear(2, 1)
    local before = model.weight:totable()
    fails("vector has shape (4), wants (3): the elements of all parameters",
      utils.vector_to_parameters, optlua.zeros(4), model)
    assert.same(before, model.weight:totable())
    fails("vector: tensor expected, got table", utils.vector_to_parameters, {}, model)
  end)
end)

describe("weight_norm", function()
  local function layer()
    local linear = nn.Linear(3, 2, { dtype = "float64" })
    linear.weight = nn.Parameter(double { { 3, 0, 4 }, { 0, -2, 0 } })
    return linear
  end

  it("keeps the weight, as length and direction, under PyTorch's names", function()
    local linear = layer()
    local weight = linear.weight
    assert.equal(linear, utils.weight_norm(linear))
    near(weight, linear.weight)
    assert.same({ "bias", "weight_g", "weight_v" }, names(linear))
    near({ { 5 }, { 2 } }, linear.weight_g)
    assert.equal("Linear(in_features=3, out_features=2, bias=true)", tostring(linear))
    local other = utils.parametrizations.weight_norm(layer())
    assert.same({ "bias", "parametrizations.weight.original0", "parametrizations.weight.original1" }, names(other))
    near(weight, other.weight)
  end)

  it("has PyTorch's numbers and gradients", function()
    local conv = nn.Linear(1, 1)
    conv.weight = nn.Parameter((optlua.arange(12):to "float64" / 4 - 1):reshape(3, 2, 2))
    utils.parametrizations.weight_norm(conv)
    local part = conv.parametrizations.weight
    optlua.no_grad(function() part.original0:copy_(double { { { 1 } }, { { 2 } }, { { 3 } } }) end)
    near({ { { -0.7302967433402214, -0.5477225575051661 }, { -0.3651483716701107, -0.18257418583505536 } },
      { { 0.0, 0.5345224838248488 }, { 1.0690449676496976, 1.6035674514745464 } },
      { { 1.0690449676496976, 1.3363062095621219 }, { 1.6035674514745464, 1.8708286933869709 } } }, conv.weight)
    local sum = conv.weight * double { { { 1 } }, { { -1 } }, { { 2 } } } * double { 1, 2 }
    sum:sum():backward()
    near({ { { -2.556038601690775 } }, { { -2.6726124191242437 } }, { { 6.057921483348286 } } }, part.original0.grad)
    near({ { { -0.6329238442281919, 0.43817804600413285 }, { 0.048686449556014755, 1.1197883397883395 } },
      { { -2.138089935299395, -2.748972773956365 }, { 0.9163242579854551, 0.3054414193284851 } },
      { { -0.16968967740471363, 1.3914553547186543 }, { -1.323579483756768, 0.23756554836659993 } } }, part.original1.grad)
  end)

  it("takes a dimension, or the whole", function()
    near({ { 3, 2, 4 } }, utils.weight_norm(layer(), "weight", 2).weight_g)
    near({ { 3, 2, 4 } }, utils.weight_norm(layer(), { dim = -1 }).weight_g)
    near(math.sqrt(29), utils.weight_norm(layer(), { dim = false }).weight_g)
    local linear = layer()
    near(linear.bias:abs(), utils.weight_norm(linear, "bias").bias_g)
  end)

  it("is trained, saved, loaded and copied by its parts", function()
    local linear = utils.weight_norm(layer())
    local optimizer = optim.SGD(linear, { lr = 0.1 })
    local x = double { { 1, 2, 3 } }
    linear(x):sum():backward()
    assert.is_truthy(linear.weight_g.grad and linear.weight_v.grad)
    local before = linear.weight:totable()
    optimizer:step()
    assert.not_same(before, linear.weight:totable())
    local other = utils.weight_norm(nn.Linear(3, 2, { dtype = "float64" }))
    other:load_state_dict(linear:state_dict())
    near(linear.weight, other.weight)
    local copy = linear:clone()
    optlua.no_grad(function() linear.weight_g:mul_(2) end)
    near(linear.weight / 2, copy.weight)
    assert.equal("float32", copy:to("float32").weight.dtype)
    assert.is_false(utils.weight_norm(layer():requires_grad_(false)).weight_g.requires_grad)
  end)

  it("can be taken off again", function()
    local linear = utils.weight_norm(utils.weight_norm(layer()), "bias")
    local weight, bias = linear.weight:detach(), linear.bias:detach()
    utils.remove_weight_norm(linear)
    near(weight, linear.weight)
    near(bias, linear.bias)
    assert.same({ "weight", "bias_g", "bias_v" }, names(linear))
    utils.remove_weight_norm(linear, "bias")
    assert.same({ "bias", "weight" }, (function(list) table.sort(list) return list end)(names(linear)))
    assert.is_true(linear.weight.is_leaf and linear.weight.requires_grad)
    local other = utils.parametrizations.weight_norm(layer())
    utils.parametrize.remove_parametrizations(other, "weight")
    near(weight, other.weight)
    assert.equal(2, #other:parameters())
  end)

  it("names what does not fit", function()
    fails('weight_norm: Linear has no parameter "wait"', utils.weight_norm, layer(), "wait")
    fails("weight_norm: module expected, got table", utils.weight_norm, {})
    fails("weight_norm: dimension 3 of a tensor of shape (2, 3)", utils.weight_norm, layer(), "weight", 3)
    fails("weight_norm: Linear.weight is computed already", utils.weight_norm, utils.weight_norm(layer()))
    fails("remove_weight_norm: Linear.weight has no weight norm", utils.remove_weight_norm, layer())
    fails("remove_parametrizations: Linear.weight has no parametrization",
      utils.parametrize.remove_parametrizations, layer(), "weight")
    fails("Linear.weight is computed from other parameters, and cannot be assigned",
      function() utils.weight_norm(layer()).weight = nn.Parameter(optlua.zeros(2, 3)) end)
  end)
end)

describe("spectral_norm", function()
  local function layer()
    local linear = nn.Linear(3, 2, { bias = false, dtype = "float64" })
    linear.weight = nn.Parameter(double { { 1, 2, -1 }, { 0.5, 0, 2 } })
    return linear
  end

  it("has PyTorch's numbers and gradients, and takes a step in training alone", function()
    local forms = {
      { utils.parametrizations.spectral_norm, "parametrizations.weight.original", "parametrizations.weight.0._u",
        "parametrizations.weight.0._v" },
      { utils.spectral_norm, "weight_orig", "weight_u", "weight_v" },
    }
    for _, form in ipairs(forms) do
      local linear = form[1](layer())
      assert.same({ form[2], form[3], form[4] }, names(linear))
      linear:load_state_dict {
        [form[2]] = layer().weight, [form[3]] = double { 0.6, 0.8 }, [form[4]] = double { 1, 0, 0 },
      }
      local y = linear(double { { 1, -1, 0.5 } })
      near({ { -0.7110681947099659, 0.7110681947099659 } }, y)
      y:sum():backward()
      near({ { 0.47404546313997725, -0.47404546313997725, 0.23702273156998863 },
        { 0.47404546313997725, -0.47404546313997725, 0.23702273156998863 } }, linear:get_parameter(form[2]).grad)
      near({ 0.8944271909999159, 0.4472135954999579 }, linear:state_dict()[form[3]])
      linear:eval()
      near({ { -0.7110681947099659, 0.7110681947099659 } }, linear(double { { 1, -1, 0.5 } }))
      near({ 0.8944271909999159, 0.4472135954999579 }, linear:state_dict()[form[3]])
    end
  end)

  it("makes the greatest singular value 1", function()
    optlua.manual_seed(1)
    local linear = utils.spectral_norm(nn.Linear(20, 30), { n_power_iterations = 100 })
    local product = linear.weight:t():matmul(linear.weight):detach()
    local x = optlua.randn(20)
    for _ = 1, 200 do x = product:mv(x / x:norm()) end
    assert.is_true(math.abs(x:norm():item() - 1) < 1e-3)
    local vector = utils.spectral_norm(nn.Linear(3, 4), "bias")
    assert.is_true(math.abs(vector.bias:norm():item() - 1) < 1e-6)
  end)

  it("can be taken off again", function()
    local linear = utils.spectral_norm(layer())
    local u = linear.weight_u:totable()
    utils.remove_spectral_norm(linear)
    assert.same({ "weight" }, names(linear))
    assert.is_true(linear.training)
    local other = utils.parametrizations.spectral_norm(layer())
    utils.parametrize.remove_parametrizations(other, "weight")
    assert.same({ "weight" }, names(other))
    assert.equal(2, #u)
    fails("remove_spectral_norm: Linear.weight has no spectral norm", utils.remove_spectral_norm, layer())
  end)
end)
