--- forms: what a model can hold instead of the weights that are being trained: their form for evaluation, where a class has two,
--- or averages. They are put in and taken out again, bit for bit.
--
-- While parameters have the form for evaluation the group keeps them as they were in training, in `kept`: what evaluates or saves
-- leaves no trace in the training. Averages are exchanged with the weights by a rule of the class, `swap_ema` or `swap_swa`.
local blame = require "optlua.blame"
local statistics = require "optlua.optim.statistics"
local transaction = require "optlua.optim.transaction"

local forms = {}

local function closing(fn) return setmetatable({}, { __close = fn }) end

local function check_function(self, what, fn)
  if type(fn) ~= "function" then blame(("%s: %s: a function expected, got a %s"):format(self._name, what, type(fn))) end
end

--- Raises while averages are in the model.
---@param self table
---@param what string
function forms.refuse(self, what)
  if self._swapped then
    blame(("%s: %s: not inside with_%s, where the model holds averages"):format(self._name, what, self._swapped))
  end
end

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

local function versions(group)
  local list = {}
  for i in ipairs(group.params) do list[i] = group.handle:version(i) end
  return list
end

--- Gives parameters the form for evaluation. All is kept before anything changes: wherever this is interrupted, `train` brings
--- everything back.
---@param self table
function forms.eval(self)
  forms.refuse(self, "eval")
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

--- Gives parameters the form for training: what was kept of them, or, of those that were written meanwhile, what the rule says.
---@param self table
function forms.train(self)
  forms.refuse(self, "train")
  local list, kept, any = groups_of(self, "eval"), {}, false
  for k, group in ipairs(list) do
    local others
    kept[k], others = intact(group)
    any = any or others
  end
  if any then transaction.run({ _groups = list }, "train") end
  for k, group in ipairs(list) do
    for i, tensor in pairs(kept[k]) do group.handle:put(i, tensor) end
    group.mode, group.kept, group.versions = "train", {}, nil
  end
end

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
  forms.eval(self)
  local results = table.pack(fn(...)) -- no tail call: it is not over yet
  return table.unpack(results, 1, results.n)
end

-- Averages -------------------------------------------------------------------------------------------------

local averages = { "ema", "swa" } -- that of the container stands before that of a class

--- Exchanges the weights and their averages.
---@param self table
---@param kind "ema"|"swa"
function forms.swap(self, kind)
  if self._swapped and self._swapped ~= kind then forms.refuse(self, "swap_" .. kind) end
  self:run("swap_" .. kind)
  self._swapped = not self._swapped and kind or nil
end

-- Another number after each write into parameters.
local function stamp(self)
  local sum = 0
  for _, group in ipairs(self._groups) do
    for _, version in ipairs(versions(group)) do sum = sum + version end
  end
  return sum
end

-- Exchanges weights and averages again, unless they have not been exchanged since `before`. An interrupt may come in between.
local function swap_back(self, kind, before)
  if not self._swapped and stamp(self) == before then return end
  self._swapped = kind
  local now = stamp(self)
  local ok, problem = pcall(self.run, self, "swap_" .. kind)
  if not ok and stamp(self) == now then ok, problem = pcall(self.run, self, "swap_" .. kind) end
  if not ok and stamp(self) == now then error(problem, 0) end
  self._swapped = nil
end

--- Calls a function with averages of the weights in the model. Afterwards, also after an error, weights and running statistics are
--- as before.
---@param self table
---@param kind "ema"|"swa"
---@param fn function
---@return any ... what it returns
function forms.averaged(self, kind, fn, ...)
  check_function(self, "with_" .. kind, fn)
  if self._swapped then return fn(...) end
  local restore, before = statistics.keep(self), stamp(self)
  local _ <close> = closing(function()
    swap_back(self, kind, before)
    restore()
  end)
  forms.swap(self, kind)
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end

--- Which averages of the weights an optimizer keeps, if any.
---@param self table
---@return "ema"|"swa"|nil
function forms.average(self)
  for _, kind in ipairs(averages) do
    for _, group in ipairs(self._groups) do
      if group.class.rules["swap_" .. kind] then return kind end
    end
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
  local kind = forms.average(self)
  if kind then return forms.averaged(self, kind, fn, ...) end
  if forms.mode(self) ~= "train" then return fn(...) end
  local restore = statistics.keep(self)
  local _ <close> = closing(restore)
  local results = table.pack(forms.evaluated(self, fn, ...))
  return table.unpack(results, 1, results.n)
end

return forms
