--- check: a conformance test for classes of optimizers, anybody's.
local blame = require "optlua.blame"
local classes = require "optlua.optim.classes"
local descent = require "optlua.optim.check.descent"
local hyper = require "optlua.optim.hyper"
local options = require "optlua.options"
local optlua = require "optlua"
local pieces = require "optlua.optim.check.pieces"
local report = require "optlua.optim.check.report"
local runs = require "optlua.optim.check.runs"
local source = require "optlua.optim.check.source"
local states = require "optlua.optim.check.states"
local subjects = require "optlua.optim.check.subject"
local wrapper = require "optlua.optim.wrapper"

-- In the order of the table; the first finds the rate for the others.
local checks = {
  { key = "quadratic", title = "falls on a quadratic", run = descent.quadratic },
  { key = "rosenbrock", title = "falls in Rosenbrock's valley", run = descent.rosenbrock },
  { key = "again", title = "the same bits again", run = function(subject) return runs.again(subject) end },
  { key = "threads", title = "the same bits on 1 and 3 threads", run = runs.threads },
  { key = "tensors", title = "tensors can be split", run = pieces.tensors },
  { key = "groups", title = "groups can be split", run = pieces.groups },
  { key = "resumed", title = "saved is resumed", run = function(subject) return runs.resumed(subject) end },
  { key = "absent", title = "absent gradients", run = pieces.absent },
  { key = "empty", title = "empty parameters", run = pieces.empty },
  { key = "no_dimension", title = "parameters of no dimension", run = pieces.no_dimension },
  { key = "strided", title = "strided gradients", run = pieces.strided },
  { key = "nonfinite", title = "a NaN leaves everything untouched", run = runs.nonfinite },
  { key = "in_backward", title = "updates in backward", run = runs.in_backward },
  { key = "forms", title = "two forms of a parameter", run = runs.forms },
  { key = "states", title = "states declared are used", run = states.used },
  { key = "source", title = "symbols are not compared in Lua", run = source },
}
table.move(states.narrow(), 1, #states.narrow(), #checks + 1, checks)

-- What is given: hyperparameters, and what this takes itself.
local function split(given)
  local hypers = {}
  if given ~= nil and type(given) ~= "table" then blame("optim.check: options are a table, not a " .. type(given)) end
  for name, value in pairs(given or {}) do
    if name ~= "shapes" then hypers[name] = value end
  end
  local own, problems = options.collect({ shapes = given and given.shapes }, { shapes = { required = false, type = "list" } })
  if problems[1] then blame("optim.check: " .. problems[1]) end
  return hypers, own.shapes
end

-- Raises when hyperparameters are not those of the class, or out of range.
local function check_hypers(class, hypers)
  local problems = wrapper.is(class) and {} or select(2, hyper.values(hypers, class.hyper))
  if problems[1] then blame(("optim.check: %s: %s"):format(class.name, table.concat(problems, "; "))) end
end

-- The base of the rate, where there is one.
local function rate_of(class, hypers)
  local option = class.hyper.lr
  local lr = hypers.lr or option and option.default
  return type(lr) == "number" and lr or nil
end

--- Tests whether an optimizer keeps what the library promises for its own: whether it goes downhill, does the same again, on any
--- number of threads, whatever the groups and the order, after a save and a load, with gradients that are absent or strided, with
--- narrow states.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local Signs = optim.define {
---       name = "Signs",
---       hyper = { lr = { default = 1e-3, min = 0 } },
---       update = function(p, g, s, h) return p - h.lr * optim.sign(g) end,
---     }
---     local report = optim.check(Signs)
---     print(report.ok, report.quadratic.result) --> true	holds
---
--- The result prints as a table: each line holds, does not apply, or FAILS, and why; a mistake that stops several checks is said
--- once, above. Its fields: ok, whether nothing fails; name;
--- lines, a list of { key, title, result, detail }, which also are fields by their keys:
---   quadratic, rosenbrock: the loss is lower after 100 updates with lr, lr/10, lr/100, lr/1000 or lr/10000, where lr is the default
---    (the first that falls is shown, and that of the quadratic is used for what follows)
---   again: two runs give the same bits; threads: so do 1 and 3 threads (rules that multiply matrices have small ones for it, which
---    BLAS does not divide)
---   tensors: so do a tensor and its two halves, where the rule works element by element; groups: so do one group and several,
---    where the group has no numbers
---   resumed: so do a run and one that was saved and loaded in its middle, while others trained
---   absent: a parameter without a gradient is left alone; empty: one without elements changes nothing for the others;
---    no_dimension: one of shape {} is updated; strided: gradients that are views count as their copies do
---   nonfinite: with the container's option nonfinite = "error" a NaN raises, and then nothing has changed
---   in_backward: with the container's option in_backward it does as by a step
---   forms: train() after eval() gives the parameters back
---   states: all that are declared are used; source: no == and no `if` on symbols in the rule's source
---   bfloat16, 8bit, 8bit-all: with states stored so (the container's state_dtype) it falls on the quadratic, does the same again, and
---    is resumed
---
--- `optlua check FILE` does this in a shell, with all classes that a file returns or registers.
---@param class string|optlua.optim.Class|optlua.optim.Wrapper or its name
---@param given? table hyperparameters of the class; and shapes, a list of those that parameters are to have; default: small ones
--- that the class accepts
---@return optlua.optim.Report
local function check(class, given)
  local resolved, problem = classes.resolve(class)
  if not resolved then blame("optim.check: " .. problem) end
  local hypers, shapes = split(given)
  check_hypers(resolved, hypers)
  local random = optlua.get_rng_state()
  local subject = subjects.new(resolved, hypers, shapes)
  subject.lr = rate_of(resolved, hypers)
  local result = report(resolved.name, checks, subject)
  optlua.set_rng_state(random)
  return result
end

return check
