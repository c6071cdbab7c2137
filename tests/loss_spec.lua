-- Losses and layer normalisation: cases where other systems went wrong, and bad input.
local optlua = require "optlua"
local tensor, zeros, ones = optlua.tensor, optlua.zeros, optlua.ones
local nn, F = optlua.nn, optlua.nn.functional
local nan = 0 / 0

local function int(list) return tensor(list, { dtype = "int64" }) end
local function double(list) return tensor(list, { dtype = "float64" }) end

local fails = require("fails").containing

local function near(want, got) assert.is_true(math.abs(want - got) < 1e-9, want .. " ~= " .. got) end

local function logits(list)
  local x = double(list)
  x.requires_grad = true
  return x
end

describe("cross_entropy", function()
  it("is 0 with zero gradient when every target is ignored", function()
    for _, loss in ipairs { optlua.cross_entropy, optlua.nll_loss } do
      local x = logits { { 1, 2, 3 }, { 5, nan, 0 } }
      local y = loss(x, int { -100, -100 })
      y:backward()
      assert.equal(0, y:item())
      assert.same({ { 0, 0, 0 }, { 0, 0, 0 } }, x.grad:totable())
      assert.equal(0, loss(zeros(0, 3), zeros({ 0 }, { dtype = "int64" })):item())
      assert.same({ 0, 0 }, loss(x, int { 7, 7 }, { ignore_index = 7, reduction = "none" }):totable())
    end
  end)

  it("smooths only rows that count", function()
    local x = logits { { 1, 2, 3 }, { 5, 0, 0 } }
    local y = optlua.cross_entropy(x, int { 2, -100 }, { label_smoothing = 0.2 })
    near(0.6076059644, y:item())
    y:backward()
    assert.same({ 0, 0, 0 }, x.grad[2]:totable())
    local even = optlua.cross_entropy(x, int { 2, 0 }, { label_smoothing = 1, reduction = "none" })
    near(optlua.cross_entropy(x, double { { 1, 1, 1 }, { 1, 1, 1 } }:div(3)):item(), even:mean():item())
  end)

  it("weighs classes, and the mean by their weights", function()
    local x, y = logits { { 1, 2, 3 }, { 5, 0, 0 } }, int { 2, 1 }
    local each = optlua.cross_entropy(x, y, { reduction = "none" }):totable()
    local weight = double { 1, 2, 4 }
    near((4 * each[1] + 2 * each[2]) / 6, optlua.cross_entropy(x, y, weight):item())
    near(4 * each[1] + 2 * each[2], optlua.cross_entropy(x, y, weight, { reduction = "sum" }):item())
    assert.equal(0, optlua.cross_entropy(x, y, double { 1, 0, 0 }):item())
  end)

  it("takes labels as probabilities, and more dimensions", function()
    local x = logits { { 1, 2, 3 }, { 5, 0, 0 } }
    local hot = optlua.one_hot(int { 2, 1 }, 3):to "float64"
    near(optlua.cross_entropy(x, int { 2, 1 }):item(), optlua.cross_entropy(x, hot):item())
    local deep = optlua.stack({ x, x }, 3) -- (2,3,2)
    near(optlua.cross_entropy(x, int { 2, 1 }):item(), optlua.cross_entropy(deep, int { { 2, 2 }, { 1, 1 } }):item())
    assert.equal(optlua.cross_entropy(x[1], int(2)):item(), optlua.cross_entropy(x[{ { 1, 1 } }], int { 2 }):item())
  end)

  it("is finite for large logits", function()
    near(1, optlua.cross_entropy(double { { 1e4, 1e4 - 1 } }, double { { 0, 1 } }):item() - math.log(1 + math.exp(-1)))
  end)

  it("names the position of a target that is no class", function()
    local message = "cross_entropy: target 3 at position (2) is neither a class (0 to 2) nor ignore_index (-100)"
    fails(message, function() return optlua.cross_entropy(ones(2, 3), int { 0, 3 }) end)
    fails("cross_entropy: target -1 at position (2, 1)",
      function() return optlua.cross_entropy(ones(2, 3, 2), int { { 0, 0 }, { -1, 0 } }) end)
    fails("nll_loss: target 5 at position (1)", function() return optlua.nll_loss(ones(1, 3), int { 5 }) end)
    fails("target 2 at position ()", function() return optlua.cross_entropy(ones(2), int(2)) end)
  end)

  it("names what does not fit", function()
    local x, y = ones(2, 3), int { 0, 1 }
    fails("target has shape (1, 2); labels for an input of shape (2, 3) have (2)",
      function() return optlua.cross_entropy(x, int { { 0, 1 } }) end)
    fails("probabilities have the input's shape (2, 3)",
      function() return optlua.cross_entropy(x, ones(2, 2)) end)
    fails("weight has shape (2), wants (3)", function() return optlua.cross_entropy(x, y, ones(2)) end)
    fails("weight is float64, input float32", function() return optlua.cross_entropy(x, y, double { 1, 1, 1 }) end)
    fails("label_smoothing is 1.5, wants 0 to 1",
      function() return optlua.cross_entropy(x, y, { label_smoothing = 1.5 }) end)
    fails("mean|sum|none", function() return optlua.cross_entropy(x, y, { reduction = "average" }) end)
    fails("nll_loss: target is float32; labels are int64", function() return optlua.nll_loss(x, x) end)
    fails("input has no classes", function() return optlua.cross_entropy(tensor(1), int(0)) end)
    local weight = double { 1, 1, 1 }
    weight.requires_grad = true
    fails("weight has no gradient", function() return optlua.cross_entropy(x:to "float64", y, weight) end)
  end)
end)

describe("mse_loss", function()
  it("wants one shape, so that nothing broadcasts by mistake", function()
    fails("mse_loss: input of shape (3, 1) and target of shape (3) differ",
      function() return optlua.mse_loss(ones(3, 1), ones(3)) end)
    fails("got int64", function() return optlua.mse_loss(ones(2), int { 1, 2 }) end)
  end)
end)

describe("losses of pairs", function()
  it("want one shape", function()
    for _, name in ipairs { "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
      "binary_cross_entropy_with_logits", "kl_div" } do
      fails(name .. ": input of shape (3, 1) and target of shape (3) differ",
        function() return optlua[name](ones(3, 1), ones(3)) end)
      fails(name .. ": wants float32 or float64, got int64", function() return optlua[name](ones(2), int { 1, 2 }) end)
    end
  end)

  it("have no slope where input and target are equal", function()
    for _, name in ipairs { "l1_loss", "smooth_l1_loss", "huber_loss" } do
      local x = logits { 1, -2 }
      optlua[name](x, double { 1, -2 }):backward()
      assert.same({ 0, 0 }, x.grad:totable())
    end
  end)

  it("check their numbers", function()
    fails("smooth_l1_loss: beta is -1, wants at least 0",
      function() return optlua.smooth_l1_loss(ones(2), ones(2), { beta = -1 }) end)
    fails("huber_loss: delta is 0, wants a positive number",
      function() return optlua.huber_loss(ones(2), ones(2), { delta = 0 }) end)
    fails("beta: expected a number at least 0, got -1", function() return nn.SmoothL1Loss { beta = -1 } end)
    fails('unknown option "betta" (did you mean "beta"?)', function() return nn.SmoothL1Loss { betta = 1 } end)
  end)
end)

describe("binary cross-entropy", function()
  local bce, with_logits = optlua.binary_cross_entropy, optlua.binary_cross_entropy_with_logits

  it("is exact for large logits", function()
    local x = logits { 1000, -1000, 50 }
    local y = with_logits(x, double { 0, 1, 1 }, { reduction = "none" })
    assert.same({ 1000, 1000, math.exp(-50) }, y:totable())
    y:sum():backward()
    near(1, x.grad:totable()[1])
    near(-1, x.grad:totable()[2])
  end)

  it("is finite for certain errors", function()
    local x = logits { 0, 1 }
    local y = bce(x, double { 1, 0 }, { reduction = "none" })
    assert.same({ 100, 100 }, y:totable())
    y:sum():backward()
    for _, slope in ipairs(x.grad:totable()) do assert.is_true(math.abs(slope) < math.huge) end
  end)

  it("is that of the sigmoid", function()
    local x, y = double { { 0.3, -2 }, { 1.5, 0 } }, double { { 1, 0.25 }, { 0, 0.5 } }
    near(bce(x:sigmoid(), y):item(), with_logits(x, y):item())
  end)

  it("names what does not fit", function()
    fails("binary_cross_entropy: an element of input is not a probability, from 0 to 1",
      function() return bce(tensor { 1.5 }, ones(1)) end)
    fails("not a probability", function() return bce(tensor { nan }, ones(1)) end)
    fails("weight of shape (2, 3) does not broadcast to the input's shape (3)",
      function() return bce(ones(3), ones(3), ones(2, 3)) end)
    fails("pos_weight of shape (2) does not broadcast", function()
      return with_logits(ones(3), ones(3), { pos_weight = ones(2) })
    end)
    fails("weight has no gradient; pass weight:detach()", function()
      return with_logits(logits { 1 }, double { 1 }, logits { 1 })
    end)
  end)
end)

describe("kl_div", function()
  it("counts nothing where the target is 0", function()
    local x = logits { 0, -math.huge }
    local y = optlua.kl_div(x, double { 1, 0 }, "sum")
    assert.equal(0, y:item())
  end)

  it("divides by the batch alone with batchmean", function()
    local x, y = ones(2, 3):log_softmax(2), tensor { { 1, 0, 0 }, { 0, 0.5, 0.5 } }
    local sum = optlua.kl_div(x, y, "sum"):item()
    assert.is_true(math.abs(optlua.kl_div(x, y, "batchmean"):item() - sum / 2) < 1e-6)
  end)
end)

describe("losses in Lua", function()
  it("are functions too, with options by position or by name", function()
    local a, b, c = double { { 1, 2 } }, double { { 2, 0 } }, double { { 0, 3 } }
    local triplet = F.triplet_margin_loss(a, b, c, { margin = 2, p = 1, eps = 0 }):item()
    near(2 + 3 - 2, triplet)
    near(triplet, F.triplet_margin_loss(a, b, c, 2, 1, 0):item())
    near(triplet, F.triplet_margin_loss(a, b, c, 2, { p = 1, eps = 0 }):item())
    near(2 / math.sqrt(20), F.cosine_similarity(a, b):item())
    near(math.sqrt(5), F.pairwise_distance(a, b, 2, 0):item())
    near(0.5 * math.log(4) + 0.125, F.gaussian_nll_loss(double { 1 }, double { 2 }, 4):item())
  end)

  it("name what does not fit", function()
    fails("triplet_margin_loss: negative: is required", F.triplet_margin_loss, ones(2), ones(2))
    fails('unknown option "margn" (did you mean "margin"?)', F.margin_ranking_loss, ones(2), ones(2), ones(2), { margn = 1 })
    fails("hinge_embedding_loss: at most 4 arguments expected, got 5", F.hinge_embedding_loss, ones(2), ones(2), 1, "sum", 3)
    fails("triplet_margin_loss: p: is given twice", F.triplet_margin_loss, ones(2), ones(2), ones(2), 1, 2, { p = 2 })
    fails("margin: expected a number above 0, got 0", F.triplet_margin_loss, ones(2), ones(2), ones(2), 0)
    fails("gaussian_nll_loss: var of shape (2) does not fit the input's shape (3)",
      function() return nn.GaussianNLLLoss()(ones(3), ones(3), ones(2)) end)
    fails("gaussian_nll_loss: var has a negative element",
      function() return nn.GaussianNLLLoss()(ones(3), ones(3), -ones(3)) end)
  end)
end)

describe("layer_norm", function()
  it("keeps the variance of large numbers", function()
    local y = optlua.layer_norm(tensor { 40000, 40001, 40002, 40003 }, { 4 }):totable()
    for k, want in ipairs { -1.34163542, -0.44721181, 0.44721181, 1.34163542 } do
      assert.is_true(math.abs(y[k] - want) < 1e-6)
    end
    local shifted = optlua.layer_norm(tensor { 1e7, 1e7 + 1, 1e7 + 2, 1e7 + 3 }, { 4 }):totable()
    assert.same(y, shifted)
    assert.same({ 0, 0, 0 }, optlua.layer_norm(tensor { 5, 5, 5 }, { 3 }):totable())
  end)

  it("names what does not fit", function()
    fails("layer_norm: input of shape (3, 4) does not end in the normalized shape (3)",
      function() return optlua.layer_norm(ones(3, 4), { 3 }) end)
    fails("layer_norm: weight has shape (3), wants (4)",
      function() return optlua.layer_norm(ones(3, 4), { 4 }, ones(3)) end)
    fails("layer_norm: bias is float64, input float32",
      function() return optlua.layer_norm(ones(3, 4), { 4 }, nil, double { 1, 1, 1, 1 }) end)
  end)
end)

describe("the mean of nothing", function()
  local x = zeros(0, 3)

  it("is NaN for losses of elements, as in PyTorch", function()
    for _, name in ipairs { "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
      "binary_cross_entropy_with_logits", "kl_div" } do
      local loss = optlua[name](x, x):item()
      assert.is_true(loss ~= loss, name)
    end
    local loss = optlua.kl_div(x, x, "batchmean"):item()
    assert.is_true(loss ~= loss)
  end)

  it("is 0 for losses of classes, of which none counts", function()
    for _, name in ipairs { "cross_entropy", "nll_loss" } do
      assert.equal(0, optlua[name](x, int {}):item())
      assert.equal(0, optlua[name](zeros(2, 3), int { 1, 1 }, { ignore_index = 1 }):item())
    end
    assert.equal(0, optlua.cross_entropy(x, x):item())
  end)
end)

describe("numbers in messages", function()
  it("show NaN without a sign", function()
    fails("delta is nan, wants", optlua.huber_loss, zeros(1), zeros(1), { delta = -nan })
    fails("delta is nan, wants", optlua.huber_loss, zeros(1), zeros(1), { delta = nan })
    fails("beta is nan, wants", optlua.smooth_l1_loss, zeros(1), zeros(1), { beta = nan })
    fails("p is nan; a probability", optlua.dropout, zeros(1), nan)
    fails("scale_factor is nan, wants a positive number", optlua.interpolate, zeros(1, 1, 2), { scale_factor = nan })
    fails("scale_factor is -inf, wants a positive number", optlua.interpolate, zeros(1, 1, 2),
      { scale_factor = -math.huge })
    fails("scale_factor is inf, gives inf positions", optlua.interpolate, zeros(1, 1, 2), { scale_factor = math.huge })
  end)
end)
