-- Optimizers whose parameters have two forms, distances of groups, averages of weights: against the authors' packages
-- (golden/optim_forms.txt), to and fro, and through saves.
local goldens = require "goldens"
local optlua = require "optlua"
local optim = optlua.optim

local golden = goldens.read("optim_forms.txt", 4)

-- Prodigy's eps is scaled by another d than in the authors' code (see prodigy.lua): 1e-5 where eps is small against the gradients
-- or d grows slowly. "Prodigy'" is their code with our d, in double precision exact; in single the estimate amplifies rounding.
local function tolerance_of(case, dtype)
  return case.class:find "^Prodigy" and (dtype == "float32" or case.class == "Prodigy") and 1e-5 or goldens.TOLERANCE[dtype]
end

describe("golden numbers of " .. golden.version, function()
  for _, case in ipairs(golden.cases) do
    if not case.class:find "%(" then
    for dtype in pairs(goldens.TOLERANCE) do
      it(("%s %s, %s"):format(case.class, case.text, dtype), function()
        local tolerance = tolerance_of(case, dtype)
        local optimizer, params = goldens.check(golden, case, optim.resolve((case.class:gsub("'$", ""))), dtype, tolerance)
        optimizer:eval()
        assert.is_true(goldens.worst(goldens.flatten(params), case.seen[dtype][4]) <= tolerance)
      end)
    end
    end
  end
end)
