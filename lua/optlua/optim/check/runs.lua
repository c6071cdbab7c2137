--- runs: whether a class does the same again: from the start, on several threads, after a save; and changes nothing when a
--- step fails.
local optlua = require "optlua"
local closing = require "optlua.closing"
local subjects = require "optlua.optim.check.subject"
local trial = require "optlua.optim.check.trial"

local runs = {}

local UPDATES = 6

--- The same updates twice give the same bits.
---@param subject table
---@param options? table of the container
function runs.again(subject, options)
  local first = trial.new(subject, { options = options }):run(UPDATES):picture()
  trial.same(first, trial.new(subject, { options = options }):run(UPDATES):picture(), "two runs differ")
end

local ENOUGH = 100000 -- elements that several threads share

-- Parameters that several threads share: large ones, or, where BLAS has its own way with large matrices, many.
local function large_pieces(subject)
  local list, total, own = {}, 0, subject.rule and not subject.rule.multiplies
  local shapes = {}
  for _, shape in ipairs(subject.shapes) do
    local large = subjects.taller(shape, own and ENOUGH // #subject.shapes or 500)
    if large and subjects.accepts(subject.class, large) then shapes[#shapes + 1] = large end
  end
  while shapes[1] and total < ENOUGH do
    list[#list + 1] = shapes[#list % #shapes + 1]
    total = total + subjects.count(list[#list])
  end
  return list[1] and trial.pieces(list)
end

local function on_threads(subject, pieces, threads)
  optlua.set_num_threads(threads)
  return trial.new(subject, { pieces = pieces }):run(2):picture()
end

--- On one thread and on three.
function runs.threads(subject)
  local pieces, before = large_pieces(subject), optlua.get_num_threads()
  if not pieces then return false, "no large parameter is accepted" end
  local _ <close> = closing(function() optlua.set_num_threads(before) end)
  optlua.set_num_threads(3)
  if optlua.get_num_threads() ~= 3 then return false, "this build has one thread" end
  local three = on_threads(subject, pieces, 3)
  trial.same(on_threads(subject, pieces, 1), three, "on 1 and 3 threads")
end

--- What was saved goes on as if there had been no end. Between save and load others train, as in another process.
---@param subject table
---@param options? table of the container
function runs.resumed(subject, options)
  local first = trial.new(subject, { options = options }):run(UPDATES)
  local picture, saved, random, now = first:picture(), first:saved(), optlua.get_rng_state(), first.now
  local whole = first:run(UPDATES):picture()
  trial.new(subject, { options = options }):run(UPDATES + 1)
  local second = trial.new(subject, { options = options }):resume(picture, saved, now)
  optlua.set_rng_state(random)
  trial.same(whole, second:run(UPDATES):picture(), "resumed and uninterrupted")
end

--- With nonfinite = "error" a NaN makes a step fail, and nothing has changed.
function runs.nonfinite(subject)
  local options = { nonfinite = "error" }
  local one = trial.new(subject, { options = options }):run(3)
  local before, piece = one:picture(), one.pieces[#one.pieces]
  piece.poison = true
  if pcall(one.run, one, 1) then error("a step with a NaN for a gradient raises nothing", 0) end
  trial.same(before, one:picture(), "after a step that failed")
  piece.poison = nil
  local after = one:run(3):picture()
  trial.same(trial.new(subject, { options = options }):run(6):picture(), after, "a step that failed left something")
end

--- Updates in backward give the bits of updates by a step.
function runs.in_backward(subject)
  local made, one = pcall(trial.new, subject, { options = { in_backward = true } })
  if not made then
    local why = tostring(one):match "in_backward: (.*)"
    if not why then error(one, 0) end
    return false, (why:gsub("^group '[^']*': ", ""))
  end
  trial.same(trial.new(subject):run_backward(UPDATES):picture(), one:run_backward(UPDATES):picture(), "by a step and in backward")
end

-- What was saved without the form that parameters had in training: the rule has to find it.
local function without_forms(saved)
  local state = {}
  for key, value in pairs(saved) do
    if not (key:find "%.train_form$" or key:find "^the parameter ") then state[key] = value end
  end
  return state
end

--- The two forms of a parameter lead to one another, and asking for one twice changes nothing.
function runs.forms(subject)
  local rules = subject.class.rules or {}
  if not rules.eval then return false, "there is one form" end
  local one = trial.new(subject):run(UPDATES)
  local before = one:picture()
  one.optimizer:eval()
  one.optimizer:eval()
  local saved = one:picture()
  one.optimizer:train()
  one.optimizer:train()
  trial.same(before, one:picture(), "train() after eval() does not bring everything back")
  local other = trial.new(subject):resume(saved, without_forms(saved), UPDATES)
  other.optimizer:train()
  local after = other:picture()
  for _, piece in ipairs(one.pieces) do
    local name = "the parameter " .. piece.name
    if not after[name]:allclose(before[name], { rtol = 1e-4, atol = 1e-5 }) then
      local gap = (after[name] - before[name]):abs():max():item()
      error(("the rule train after eval does not give the parameter back: it differs by up to %.3g"):format(gap), 0)
    end
  end
end

return runs
