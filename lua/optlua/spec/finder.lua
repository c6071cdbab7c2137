--- finder: tries rising learning rates and says which is good (Smith, "Cyclical learning rates", 2017, section 3.3).
--
-- All groups rise by the same factor, so that their ratios stay. Nothing of it is kept.
local chart = require "optlua.chart"
local optim = require "optlua.optim"
local run = require "optlua.spec.run"

local STEPS, LOW, HIGH = 100, 1e-4, 1e2 -- factors on the base rates
local SMOOTH, LIMIT = 0.9, 4 -- of the mean over losses; a loss so many times the best ends the search

local function factor(k) return LOW * (HIGH / LOW) ^ (k / (STEPS - 1)) end

-- The smoothed losses of updates with rising factors.
local function search(state)
  local losses, mean, best = {}, 0, math.huge
  optim.lr_scheduler(state.optimizers, factor)
  while true do
    for batch in function() return table.pack(state.next_batch()) end do
      if batch[1] == nil then break end
      local loss = state.spec:call("train_step", state, batch)
      mean = SMOOTH * mean + (1 - SMOOTH) * loss:item()
      local smoothed = mean / (1 - SMOOTH ^ (#losses + 1))
      best = math.min(best, smoothed)
      if smoothed ~= smoothed or smoothed > LIMIT * best then return losses end
      losses[#losses + 1] = smoothed
      if #losses == STEPS then return losses end
      state.optimizers:zero_grad()
      loss:backward()
      state.optimizers:step()
    end
    state.next_batch = state.loader:batches()
  end
end

-- Where the loss falls most steeply, over a few updates.
local function steepest(losses)
  local at, slope = nil, 0
  for k = 4, #losses - 3 do
    local here = losses[k + 3] - losses[k - 3]
    if here < slope then at, slope = k, here end
  end
  return at
end

--- Searches, prints the curve and the rates of the groups; with `path`, draws it as SVG too.
---@param spec optlua.Spec
---@param cfg table
---@param path string?
---@return number? factor on the base rates
local function find(spec, cfg, path)
  local state = run.build(spec, cfg)
  state.model:train()
  state.next_batch = state.loader:batches()
  optim.lr_scheduler(state.optimizers, function() return 1 end)
  local bases = {}
  for _, group in ipairs(state.optimizers.groups) do bases[#bases + 1] = { group.name, group.lr } end
  local losses = search(state)
  losses.name = ("loss, factor from %g rising to %g"):format(factor(0), factor(math.max(#losses, 1) - 1))
  print(chart.draw({ losses }, { width = 72, height = 12, path = path }))
  local at = steepest(losses)
  if not at then
    print "the loss does not fall at any rate"
    return nil
  end
  print(("the loss falls most steeply at the factor %.3g:"):format(factor(at - 1)))
  for _, base in ipairs(bases) do print(("  group %s: lr = %.3g"):format(base[1], base[2] * factor(at - 1))) end
  return factor(at - 1)
end

return find
