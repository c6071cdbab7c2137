-- ctc_loss: sums over all paths, gradients behind log_softmax, lengths, and bad input.
local optlua = require "optlua"
local nn, F = optlua.nn, optlua.nn.functional

local fails = require("fails").containing

local function int(list) return optlua.tensor(list, { dtype = "int64" }) end

local function near(want, got) assert.is_true(math.abs(want - got) < 1e-10, want .. " ~= " .. got) end

--- What a path of classes emits: repeats once, blanks not at all.
local function emitted(path)
  local labels, last = {}, 0
  for _, class in ipairs(path) do
    if class ~= last and class ~= 0 then labels[#labels + 1] = class end
    last = class
  end
  return table.concat(labels, " ")
end

--- The probability of a target, by going through all paths of log-probabilities (T, C).
local function by_all_paths(x, target)
  local steps, classes, total = x.shape[1], x.shape[2], 0
  local rows, wanted = x:totable(), table.concat(target, " ")
  local path = {}
  local function go(t, log_p)
    if t > steps then
      if emitted(path) == wanted then total = total + math.exp(log_p) end
      return
    end
    for class = 0, classes - 1 do
      path[t] = class
      go(t + 1, log_p + rows[t][class + 1])
    end
  end
  go(1, 0)
  return total
end

describe("ctc_loss", function()
  it("adds up all paths", function()
    optlua.manual_seed(3)
    for _, target in ipairs { {}, { 1 }, { 1, 1 }, { 1, 2 }, { 2, 2, 1 }, { 1, 2, 1 } } do
      local x = optlua.randn({ 5, 3 }, { dtype = "float64" }):log_softmax(2)
      local loss = F.ctc_loss(x, int(#target > 0 and target or { 1 }), 5, #target, { reduction = "sum" })
      near(-math.log(by_all_paths(x, target)), loss:item())
    end
  end)

  it("has the gradient of its differences behind log_softmax", function()
    optlua.manual_seed(4)
    local x = optlua.randn({ 6, 2, 4 }, { dtype = "float64" })
    x.requires_grad = true
    for _, reduction in ipairs { "mean", "sum" } do
      assert.is_true(optlua.gradcheck(function(logits)
        return F.ctc_loss(logits:log_softmax(3), int { 1, 2, 2, 3 }, { 6, 5 }, { 3, 1 }, { reduction = reduction })
      end, { x }))
    end
  end)

  it("gives a sample the same loss alone, in a batch, padded and in a row", function()
    optlua.manual_seed(5)
    local x = optlua.randn({ 6, 2, 4 }, { dtype = "float64" }):log_softmax(3)
    local alone = {}
    for n, target in ipairs { { 1, 2, 2 }, { 3 } } do
      alone[n] = F.ctc_loss(x:select(2, n):narrow(1, 1, 7 - n), int(target), 7 - n, #target, { reduction = "none" }):item()
    end
    local padded = F.ctc_loss(x, int { { 1, 2, 2 }, { 3, 0, 99 } }, { 6, 5 }, { 3, 1 }, { reduction = "none" }):totable()
    local row = F.ctc_loss(x, int { 1, 2, 2, 3 }, { 6, 5 }, { 3, 1 }, { reduction = "none" }):totable()
    for n = 1, 2 do
      near(alone[n], padded[n])
      near(alone[n], row[n])
    end
    near((alone[1] / 3 + alone[2]) / 2, F.ctc_loss(x, int { 1, 2, 2, 3 }, { 6, 5 }, { 3, 1 }):item())
  end)

  it("is infinite where there are too few steps, or 0 when asked", function()
    local x = optlua.zeros(2, 2, 3):log_softmax(3)
    x.requires_grad = true
    local function call(zero) return F.ctc_loss(x, int { { 1, 1 }, { 1, 2 } }, { 2, 2 }, { 2, 2 }, 0, "sum", zero) end
    assert.equal(math.huge, call(false):item())
    local loss = call(true)
    assert.is_true(loss:item() < 10)
    loss:backward()
    assert.same({ 0, 0, 0 }, x.grad[1][1]:totable())
    assert.is_true(x.grad[1][2][2]:item() < 0)
    assert.equal(0, F.ctc_loss(x, int { { 1 }, { 1 } }, { 0, 0 }, { 0, 0 }):item())
  end)

  it("gives the same bits on any number of threads", function()
    optlua.manual_seed(6)
    local x = optlua.randn(20, 9, 12):log_softmax(3)
    local targets, lengths = optlua.randint(1, 12, { 9, 7 }), int { 7, 6, 5, 4, 3, 2, 1, 0, 7 }
    local threads, seen = optlua.get_num_threads(), {}
    for _, n in ipairs { 1, 2, 3 } do
      optlua.set_num_threads(n)
      local leaf = x:detach():clone()
      leaf.requires_grad = true
      local loss = F.ctc_loss(leaf, targets, optlua.full({ 9 }, 20, { dtype = "int64" }), lengths)
      loss:backward()
      seen[n] = { loss:item(), leaf.grad:reshape(-1):totable() }
    end
    optlua.set_num_threads(threads)
    assert.same(seen[1], seen[2])
    assert.same(seen[1], seen[3])
  end)

  it("names what does not fit", function()
    local x, y = optlua.zeros(3, 2, 4), int { { 1, 2 }, { 3, 1 } }
    local function call(...) return nn.CTCLoss()(...) end
    fails("input_lengths 4 of sample 2 is not from 0 to 3", call, x, y, { 3, 4 }, { 1, 1 })
    fails("target_lengths 3 of sample 1 is not from 0 to 2", call, x, y, { 3, 3 }, { 3, 1 })
    fails("input_lengths has shape (1), wants (2): one for each sample", call, x, y, { 3 }, { 1, 1 })
    fails("target 0 of sample 1, position 2, is the blank; wants another class", call, x, int { { 1, 0 }, { 1, 1 } }, { 3, 3 }, { 2, 2 })
    fails("target 4 of sample 2, position 1, is no class (0 to 3)", call, x, int { { 1, 2 }, { 4, 1 } }, { 3, 3 }, { 2, 2 })
    fails("target_lengths add up to 3, but there are 4 targets", call, x, int { 1, 2, 3, 1 }, { 3, 3 }, { 2, 1 })
    fails("targets is float32, wants int64", call, x, y:to "float32", { 3, 3 }, { 2, 2 })
    fails("log_probs of shape (3); wants (T, N, C) or (T, C)", call, optlua.zeros(3), int { 1 }, 3, 1)
    fails("blank 4 is no class (0 to 3)", function() return nn.CTCLoss { blank = 4 }(x, y, { 3, 3 }, { 2, 2 }) end)
    fails("ctc_loss: target_lengths: is required", F.ctc_loss, x, y, { 3, 3 })
  end)
end)
