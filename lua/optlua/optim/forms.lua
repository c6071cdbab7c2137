--- forms: what a model can hold instead of the weights that are being trained: their form for evaluation, where a class has two,
--- or averages. They are put in and taken out again, bit for bit.
--
-- In both cases copies of the parameters as they were in training are kept, and put back: what evaluates or saves leaves no trace
-- in the training. While parameters have the form for evaluation the group has the copies, in `kept`, which is saved; while a
-- function runs with averages the call has them. swap_ema and swap_swa exchange weights and averages, by a rule of the class.
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local phase = require "optlua.optim.phase"
local statistics = require "optlua.optim.statistics"
local transaction = require "optlua.optim.transaction"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local forms = {}

local function check_function(self, what, fn)
  if type(fn) ~= "function" then blame(("%s: %s: a function expected, got a %s"):format(self._name, what, type(fn))) end
end

--- Rules of classes that are methods of the optimizer too, which keep account of what the model holds.
forms.methods = { eval = true, train = true, swap_ema = true, swap_swa = true }

-- Two forms ------------------------------------------------------------------------------------------------

-- The groups of classes with two forms that are of this form.
local function groups_of(self, mode)
  local list = {}
  for _, group in ipairs(self._groups) do
    if group.class.rules.eval and group.mode == mode then list[#list + 1] = group end
  end
  return list
end

-- Copies of the parameters that the rule is going to change: those that were updated.
local function copies(group)
  local tensors = {}
  for i, tensor in ipairs(group.params) do
    if group.handle:state(i) > 0 then tensors[i] = tensor:detach():clone() end
  end
  return tensors
end

local function put(group, tensors)
  for i, tensor in pairs(tensors) do group.handle:put(i, tensor) end
end

local function versions(group)
  local list = {}
  for i in ipairs(group.params) do list[i] = group.handle:version(i) end
  return list
end

local function eval(self)
  local list, kept = groups_of(self, "train"), {}
  if #list == 0 then return end
  for k, group in ipairs(list) do kept[k] = copies(group) end
  for k, group in ipairs(list) do group.kept, group.mode = kept[k], "eval" end
  local ok, problem = pcall(transaction.run, { _groups = list }, "eval")
  if not ok then
    forms.train(self)
    error(problem, 0)
  end
  for _, group in ipairs(list) do group.versions = versions(group) end
end

--- Gives parameters the form for evaluation. All is kept before anything changes.
---@param self table
function forms.eval(self) uninterrupted(eval, self) end

-- What was kept of the parameters of a group that nobody has written since, and whether there are others. Of those that were
-- loaded all that was kept is true.
local function intact(group)
  local tensors, others = {}, false
  for i in ipairs(group.params) do
    local kept, version = group.kept[i], group.versions and group.versions[i]
    if kept and (not version or version == group.handle:version(i)) then
      tensors[i] = kept
    elseif group.handle:state(i) > 0 then
      others = true
    end
  end
  return tensors, others
end

-- Writes what was kept into the parameters of groups.
local function put_back(groups, kept)
  for k, group in ipairs(groups) do
    put(group, kept[k])
    group.mode, group.versions = "train", nil
  end
end

local function train(self)
  local list, kept, any = groups_of(self, "eval"), {}, false
  for k, group in ipairs(list) do
    local others
    kept[k], others = intact(group)
    any = any or others
  end
  if any then
    transaction.run({ _groups = list }, "train")
    for k, group in ipairs(list) do
      for i, tensor in pairs(copies(group)) do kept[k][i] = kept[k][i] or tensor end
    end
  end
  put_back(list, kept)
  for _, group in ipairs(self._groups) do group.kept = {} end
end

--- Gives parameters the form for training: what was kept of them, or, of those that were written meanwhile, what the rule says.
---@param self table
function forms.train(self) uninterrupted(train, self) end

--- The form that parameters have now; nil where no class has two.
---@param self table
---@return "train"|"eval"|nil
function forms.mode(self)
  if #groups_of(self, "eval") > 0 then return "eval" end
  return #groups_of(self, "train") > 0 and "train" or nil
end

--- Calls a function while parameters have the form for evaluation; afterwards, also after an error, they are as before.
---@param self table
---@param fn function
---@return any ... what it returns
function forms.evaluated(self, fn, ...)
  if forms.mode(self) ~= "train" then return fn(...) end
  local _ <close> = closing(function() forms.train(self) end)
  return phase.during(self, "with_eval", function(...)
    forms.eval(self)
    return fn(...)
  end, ...)
end

-- Averages -------------------------------------------------------------------------------------------------

local averages = { "ema", "swa" } -- that of the container stands before that of a class

-- The groups that keep averages of a kind.
local function keepers(self, kind)
  local list = {}
  for _, group in ipairs(self._groups) do
    if group.class.rules["swap_" .. kind] then list[#list + 1] = group end
  end
  return list
end

-- Raises where a method asks for averages that cannot be had, or not now.
local function check_averages(self, method, kind)
  phase.check(self, method)
  if #keepers(self, kind) > 0 then return end
  blame(("%s: %s: %s"):format(self._name, method, kind == "ema" and "averages are kept with the container's option ema"
    or "averages are kept by optim.swa(class)"))
end

--- Exchanges the weights and their averages.
---@param self table
---@param kind "ema"|"swa"
function forms.swap(self, kind)
  local rule = "swap_" .. kind
  check_averages(self, rule, kind)
  uninterrupted(function()
    transaction.run(self, rule)
    self._phase = self._phase ~= kind and kind
  end)
end

-- The averages of the parameters of a group, by number: of those that were updated.
local function averages_of(group, kind)
  local found = {}
  for i in ipairs(group.params) do
    local _, tensors = group.handle:state(i)
    for k, tensor in ipairs(tensors) do
      if group.of_shape[group.shape_of[i]][k].name == kind then found[i] = tensor end
    end
  end
  return found
end

--- Calls a function with averages of the weights in the model. Meanwhile copies of the weights are kept, and put back afterwards,
--- also after an error; running statistics too.
---@param self table
---@param kind "ema"|"swa"
---@param fn function
---@return any ... what it returns
function forms.averaged(self, kind, fn, ...)
  local method = "with_" .. kind
  check_function(self, method, fn)
  check_averages(self, method, kind)
  if phase.holds_averages(self) then return fn(...) end
  local groups, restore, kept = keepers(self, kind), statistics.keep(self), {}
  for k, group in ipairs(groups) do kept[k] = copies(group) end
  local _ <close> = closing(function()
    for k, group in ipairs(groups) do put(group, kept[k]) end
    restore()
  end)
  return phase.during(self, method, function(...)
    for _, group in ipairs(groups) do put(group, averages_of(group, kind)) end
    return fn(...)
  end, ...)
end

--- Which averages of the weights an optimizer keeps, if any.
---@param self table
---@return "ema"|"swa"|nil
function forms.average(self)
  for _, kind in ipairs(averages) do
    if #keepers(self, kind) > 0 then return kind end
  end
end

--- Whether with_eval puts weights into the model with which nobody has trained, so that running statistics do not fit.
---@param self table
---@return boolean
function forms.are_new(self)
  local kind = forms.average(self)
  if not kind then return forms.mode(self) == "train" end
  for _, group in ipairs(kind == "swa" and self._groups or {}) do
    if group.class.hyper.swa_start and group.updates >= group.base.swa_start then return true end
  end
  return false
end

--- Calls a function while the model holds what is to be evaluated: averages, or the form for evaluation.
---@param self table
---@param fn function
---@return any ... what it returns
function forms.with_eval(self, fn, ...)
  check_function(self, "with_eval", fn)
  phase.check(self, "with_eval")
  local kind = forms.average(self)
  if kind then return forms.averaged(self, kind, fn, ...) end
  if forms.mode(self) ~= "train" then return fn(...) end
  local _ <close> = closing(statistics.keep(self))
  return forms.evaluated(self, fn, ...)
end

return forms
