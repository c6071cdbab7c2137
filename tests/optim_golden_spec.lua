-- The rules against recorded numbers: PyTorch's optimizers on the same gradients (golden/optim.txt, optim_muon.txt for
-- matrices, sparse.txt for gradients of which rows are missing), and those beyond PyTorch's (optim_field.txt).
local goldens = require "goldens"
local optim = require("optlua").optim

local function copy(list) return table.move(list, 1, #list, 1, {}) end

-- What an option does nothing without.
local needs = {
  alpha_warmup = "beta3_warmup", beta3_warmup = "alpha_warmup", clamp_value = "bias_correction", dampening = "momentum",
  decoupled_weight_decay = "weight_decay", fixed_decay = "weight_decay", nesterov = "momentum", no_prox = "weight_decay",
  weight_decouple = "weight_decay",
}

for _, file in ipairs { "optim.txt", "optim_muon.txt", "sparse.txt", "optim_field.txt" } do
  local golden = goldens.read(file, 3)

  describe(("golden numbers of %s, %s"):format(golden.version, file), function()
    for _, case in ipairs(golden.cases) do
      for dtype, tolerance in pairs(goldens.TOLERANCE) do
        it(("%s %s, %s"):format(case.class, case.text, dtype), function()
          goldens.check(golden, case, optim[case.class], dtype, tolerance)
        end)
      end
    end

    it("have each option by itself", function()
      for _, case in ipairs(golden.cases) do
        assert.same({}, goldens.missing(golden, optim[case.class], needs), case.class)
      end
    end)
  end)
end

-- The average of ASGD, one number at a time: that of all parameters since the step t0.
local function naive_average(golden, o)
  local p, average = copy(golden.start), {}
  for t, gradient in ipairs(golden.steps) do
    local eta = o.lr / (1 + o.lambd * o.lr * (t - 1)) ^ o.alpha
    for i, g in ipairs(gradient) do
      p[i] = p[i] * (1 - o.lambd * eta) - eta * g
      average[i] = t - 1 <= o.t0 + 1 and p[i] or average[i] + (p[i] - average[i]) / (t - 1 - o.t0)
    end
  end
  return average
end

describe("the average of ASGD", function()
  local golden = goldens.read("optim.txt", 3)
  for _, o in ipairs { { lr = 0.1, lambd = 0.01, alpha = 0.5, t0 = 50 }, { lr = 0.1, lambd = 0.01, alpha = 0.75, t0 = 1e6 } } do
    it("is that of the parameters after t0 = " .. o.t0, function()
      local optimizer = goldens.run(golden, optim.ASGD, o, "float64", function() end)
      local state, averages = optimizer:state_dict(), {}
      for i in ipairs(golden.shapes) do averages[i] = state[("state.param%d.ax"):format(i)] end
      assert.is_true(goldens.worst(goldens.flatten(averages), naive_average(golden, o)) <= goldens.TOLERANCE.float64)
    end)
  end
end)
