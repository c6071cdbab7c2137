-- The rules against recorded numbers: PyTorch's optimizers on the same gradients (golden/optim.txt, optim_muon.txt for
-- matrices, sparse.txt for gradients of which rows are missing).
local goldens = require "goldens"
local optim = require("optlua").optim

-- What an option does nothing without.
local needs = { dampening = "momentum", nesterov = "momentum", decoupled_weight_decay = "weight_decay" }

for _, file in ipairs { "optim.txt", "optim_muon.txt", "sparse.txt" } do
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
