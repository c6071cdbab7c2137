--- statedict: what an optimizer saves, and how it is loaded: by name, all or nothing.
--
--   class.<group>              the name of the class
--   group.<group>.<name>       base values of hyperparameters, numbers of the group, its count `step`,
--                              and the `mode`, train or eval, of a class that has both forms
--   state.<parameter>.step     how often the parameter was updated
--   state.<parameter>.<slot>   a tensor; present once there was an update. Codes of 8 bits are uint8 …
--   scale.<parameter>.<slot>   … with a float32 for each 256 of them
--   group.<group>.rounding_seed  where states round stochastically
--   state.<parameter>.<word>   what else a class with a step of its own keeps for a parameter: "old_dirs/3"
--   memory.<group>.<word>      and for the group; both with a list of them, under "#contents"
--   container.<name>           max_norm and grad_scale of a container, where it has them
--   state.<parameter>.train_form   while its mode is eval, the parameter as it was in training
--   updates                    committed steps: the clock of schedules
--   member.<name>              what an optimizer saves that a wrapper built and that is not of this library
local optlua = require "optlua"
local backward = require "optlua.optim.backward"
local blame = require "optlua.blame"
local clipping = require "optlua.optim.clipping"
local hyper = require "optlua.optim.hyper"
local memory = require "optlua.optim.memory"
local options = require "optlua.options"
local load_members = require("optlua.optim.members").load
local check_saved = require "optlua.optim.saved"
local slots = require "optlua.optim.slots"
local storage = require "optlua.optim.storage"
local uninterrupted = require("optlua.core").hidden.uninterrupted
local Whole = require "optlua.optim.whole"
local describe = require("optlua.shape").describe

local statedict = {}

local function save_group(state, group)
  local prefix = "group." .. group.name .. "."
  state["class." .. group.name] = group.class.name
  for _, name in ipairs(group.class.hyper_names) do state[prefix .. name] = hyper.thaw(group.base[name]) end
  for _, name in ipairs(group.class.number_names) do state[prefix .. name] = group.numbers[name] end
  state[prefix .. "step"] = group.updates
  if group.class.rules.eval then state[prefix .. "mode"] = group.mode end
  for i, name in ipairs(group.names) do
    local steps, tensors, scales = group.handle:state(i)
    state["state." .. name .. ".step"] = steps
    for k, tensor in ipairs(tensors) do
      local own = ("%s.%s"):format(name, group.of_shape[group.shape_of[i]][k].name)
      state["state." .. own], state["scale." .. own] = tensor, scales[k]
    end
    state["state." .. name .. ".train_form"] = group.kept[i]
  end
  if group.memory then memory.save(state, group) end
  if storage.is_stochastic(group:layouts()) then state[prefix .. "rounding_seed"] = group.seed end
end

--- Everything that is needed to go on, as a flat table from names to numbers, lists, words and tensors.
--- The tensors share memory with the optimizer, as in PyTorch: clone them to keep what they hold.
---@param self table
---@return table<string, any>
function statedict.save(self)
  local state = { updates = self._clock.updates }
  for name, value in pairs(self._whole and self._whole.base or {}) do state["container." .. name] = value end
  for _, group in ipairs(self._groups) do save_group(state, group) end
  for _, member in ipairs(self._members) do
    local name = "member." .. member.name
    state[name] = check_saved(name, member.optimizer:state_dict())
  end
  return state
end

-- Loading -------------------------------------------------------------------------------------------------

local MOST = 1 << 53 -- updates; there is room for more of them

-- Reads a state, and collects what is wrong with it.
local Reader = {}
Reader.__index = Reader

function Reader:complain(...) table.insert(self.problems, string.format(...)) end

function Reader:take(key)
  local value = self.state[key]
  self.seen[key] = true
  if value == nil then table.insert(self.missing, key) end
  return value
end

function Reader:count(key)
  local value = self:take(key)
  local count = type(value) == "number" and math.tointeger(value)
  if value ~= nil and (not count or count < 0 or count > MOST) then self:complain("%s: a count expected, got %s", key, tostring(value)) end
  return count or 0
end

-- Clipping can be added and taken away between a save and a load.
function Reader:take_optional(key)
  self.seen[key] = true
  return self.state[key]
end

-- The numbers of a container as a whole that were saved.
local function read_whole(reader, whole)
  local base = {}
  for name in pairs(Whole.schema) do
    local value = reader:take_optional("container." .. name)
    local problem = whole and whole:check(name, value)
    if problem and value ~= nil then reader:complain("container.%s", problem) end
    base[name] = value
  end
  return base
end

local function table_copy(list)
  local copy = {}
  for key, value in pairs(list) do copy[key] = value end
  return copy
end

local function read_hyper(reader, group)
  local base, before = table_copy(group.base), #reader.problems -- what is missing stays
  for name in pairs(clipping.schema) do reader:take_optional(("group.%s.%s"):format(group.name, name)) end
  for _, name in ipairs(group.class.hyper_names) do
    local key = ("group.%s.%s"):format(group.name, name)
    local take = clipping.schema[name] and reader.take_optional or reader.take
    local value = take(reader, key)
    if value ~= nil then
      local problem
      base[name], problem = hyper.value(name, value, group.class.hyper[name])
      if problem then reader:complain("group.%s.%s", group.name, problem) end
    end
  end
  local problem = #reader.problems == before and group.class:problem(base)
  if problem then reader:complain("group.%s: %s", group.name, problem) end
  return base
end

local function read_numbers(reader, group)
  local numbers = table_copy(group.numbers)
  for _, name in ipairs(group.class.number_names) do
    local key = ("group.%s.%s"):format(group.name, name)
    local value = reader:take(key)
    if value ~= nil and (type(value) ~= "number" or value ~= value) then
      reader:complain("%s: a number expected, got %s", key, value ~= value and "NaN" or type(value))
    end
    if value ~= nil then numbers[name] = value end
  end
  return numbers
end

local function read_mode(reader, group)
  if not group.class.rules.eval then return "train" end
  local key = ("group.%s.mode"):format(group.name)
  local mode = reader:take(key)
  if mode ~= nil and mode ~= "train" and mode ~= "eval" then reader:complain("%s: train or eval expected, got %s", key, tostring(mode)) end
  return mode or group.mode
end

-- The seed of stochastic rounding, where one was saved.
local function read_seed(reader, group)
  local key = ("group.%s.rounding_seed"):format(group.name)
  local seed = reader.state[key]
  reader.seen[key] = true
  if seed ~= nil and math.type(seed) ~= "integer" then reader:complain("%s: an integer expected, got %s", key, tostring(seed)) end
  return seed
end

local function described(value) return optlua.is_tensor(value) and describe(value.dtype, value.shape) or type(value) end

-- The scales of codes, where there are some.
local function read_scales(reader, key, param)
  local scales = reader.state[key]
  reader.seen[key] = true
  if scales == nil then return nil end
  local wanted = describe("float32", { storage.blocks(param:numel()) })
  if described(scales) ~= wanted then reader:complain("%s: %s expected, got %s", key, wanted, described(scales)) end
  return scales
end

-- Whether what was saved can be stored as the slot wants it; notes what has to be converted.
local function fits(reader, saved, wanted)
  if saved == wanted then return true end
  if not storage.converts(saved, wanted) then return false end
  reader.converted[("%s, and are stored as %s"):format(saved, wanted)] = true
  return true
end

local function read_slot(reader, own, slot, param)
  local key = "state." .. own
  local tensor, scales = reader:take(key), read_scales(reader, "scale." .. own, param)
  if tensor == nil then return nil end
  local sizes, wanted = slot.shape or param.shape, slot.dtype or param.dtype
  if scales and described(tensor) == describe("uint8", sizes) then
    if fits(reader, "8bit", wanted) then return tensor:contiguous(), scales:contiguous() end
  elseif optlua.is_tensor(tensor) and not scales and described(tensor) == describe(tensor.dtype, sizes) then
    if fits(reader, tensor.dtype, wanted) then return tensor end
  end
  reader:complain("%s: %s expected, got %s", key, describe(wanted, sizes), described(tensor))
end

-- What a parameter was in training, where it is known and its form is that for evaluation.
local function read_kept(reader, group, i, mode)
  local own = group.names[i] .. ".train_form"
  if mode ~= "eval" or reader.state["state." .. own] == nil then return nil end
  local tensor = read_slot(reader, own, {}, group.params[i])
  return tensor and tensor:detach():clone()
end

local function read_param(reader, group, i, layout)
  local name = group.names[i]
  local entry = { steps = reader:count(("state.%s.step"):format(name)), tensors = {}, scales = {} }
  if entry.steps == 0 then return entry end
  for k, slot in ipairs(layout) do
    entry.tensors[k], entry.scales[k] = read_slot(reader, ("%s.%s"):format(name, slot.name), slot, group.params[i])
  end
  for k in ipairs(layout) do
    if entry.tensors[k] == nil then return { steps = 0, tensors = {} } end -- it begins anew, where that is allowed
  end
  return entry
end

-- A layout, with what parameters of a shape have saved besides, from a time when hyperparameters were others.
local function move_in(reader, group, shape, layout, others)
  local names, known = {}, {}
  for _, slot in ipairs(layout) do known[slot.name] = true end
  for i, name in ipairs(group.names) do
    for other in pairs(group.shape_of[i] == shape and others or {}) do
      if reader.state[("state.%s.%s"):format(name, other)] ~= nil and not known[other] then
        known[other] = true
        names[#names + 1] = other
      end
    end
  end
  if #names == 0 then return layout end
  table.sort(names)
  local longer = table.move(layout, 1, #layout, 1, {})
  for _, name in ipairs(names) do longer[#longer + 1] = others[name] end
  return longer
end

-- The states that parameters of each shape have with these hyperparameters; those that could not be
-- read are taken as they are.
local function ask_layouts(reader, group, base)
  local values = {}
  for _, name in ipairs(group.class.hyper_names) do
    values[name] = base[name]
    if values[name] == nil then values[name] = group.base[name] end
  end
  local layouts, of_shape, reads = slots.layouts(group.class, group.shapes, values, nil, group)
  if next(reads) == nil then return layouts, of_shape, reads end
  local old, changed = {}, false
  for s, shape in ipairs(group.shapes) do
    old[s] = move_in(reader, group, s, layouts[of_shape[s]], slots.others(group.class, shape, values, reads, group))
    changed = changed or old[s] ~= layouts[of_shape[s]]
  end
  if not changed then return layouts, of_shape, reads end
  return slots.layouts(group.class, group.shapes, values, old, group)
end

-- What a class with a step of its own keeps besides declared states.
local function read_memory(reader, plan)
  local group = plan.group
  if not group.memory then return nil end
  return memory.load(group, reader, function(i, name)
    for _, slot in ipairs(plan.layouts[plan.of_shape[group.shape_of[i]]]) do
      if slot.name == name then return true end
    end
    return false
  end)
end

local function read_group(reader, group)
  local plan = { group = group, base = read_hyper(reader, group), numbers = read_numbers(reader, group), params = {}, kept = {} }
  plan.mode, plan.seed = read_mode(reader, group), read_seed(reader, group)
  plan.updates = reader:count(("group.%s.step"):format(group.name))
  local class = reader:take("class." .. group.name)
  if class ~= nil and class ~= group.class.name then
    table.insert(reader.other_classes, ("class.%s: %s expected, got %s"):format(group.name, group.class.name, tostring(class)))
  end
  plan.layouts, plan.of_shape, plan.reads = ask_layouts(reader, group, plan.base)
  for i in ipairs(group.names) do
    plan.params[i] = read_param(reader, group, i, plan.layouts[plan.of_shape[group.shape_of[i]]])
    plan.kept[i] = plan.params[i].steps > 0 and read_kept(reader, group, i, plan.mode) or nil
  end
  plan.memory = read_memory(reader, plan)
  return plan
end

local function unexpected(reader)
  local list = {}
  for key in pairs(reader.state) do
    if not reader.seen[key] then list[#list + 1] = tostring(key) end
  end
  table.sort(list)
  return list
end

-- Fills a twin of a group's states.
local function make_twin(plan)
  local twin = plan.group.handle:twin()
  twin:layouts(plan.layouts, plan.of_shape)
  for i, entry in ipairs(plan.params) do twin:restore(i, entry.steps, entry.tensors, entry.scales) end
  return twin
end

local function apply(plan, updates)
  local group = plan.group
  group.handle:exchange(plan.twin)
  group:set_layouts(plan.layouts, plan.of_shape, plan.reads)
  if plan.seed then group:set_seed(plan.seed) end
  group:load(plan.base, plan.numbers, plan.updates, updates, plan.mode, plan.kept)
  group.memory = plan.memory
end

local function note_converted(self, reader)
  for _, words in ipairs(options.names(reader.converted)) do
    io.stderr:write(("%s: states were saved as %s\n"):format(self._name, words))
  end
end

local function read_all(self, reader)
  local updates, plans, members = reader:count("updates"), {}, {}
  for i, group in ipairs(self._groups) do plans[i] = read_group(reader, group) end
  for i, member in ipairs(self._members) do members[i] = reader:take("member." .. member.name) end
  return updates, plans, members
end

--- Reads a state that `save` gave, and changes nothing: what is wrong with it, and a function that loads it. States that are
--- missing, where that is allowed, begin anew.
---@param self table
---@param state table<string, any>
---@return { missing: string[], unexpected: string[], differing: string[] } report
---@return fun() commit to be called when nothing differs
function statedict.prepare(self, state)
  if type(state) ~= "table" then blame(("%s: a state is a table, not a %s"):format(self._name, type(state))) end
  backward.refuse_running(self, "load_state_dict")
  local reader = setmetatable({ state = state, seen = {}, missing = {}, other_classes = {}, problems = {}, converted = {} }, Reader)
  local updates, plans, members = read_all(self, reader)
  local whole = read_whole(reader, self._whole)
  local differing = table.move(reader.problems, 1, #reader.problems, #reader.other_classes + 1, reader.other_classes)
  if #differing == 0 then
    for _, plan in ipairs(plans) do plan.twin = make_twin(plan) end
  end
  return { missing = reader.missing, unexpected = unexpected(reader), differing = differing }, function()
    load_members(self, members)
    for _, plan in ipairs(plans) do apply(plan, updates) end
    self._clock.updates = updates
    if self._whole then self._whole:load(whole, updates) end
    backward.drop(self)
    for _, group in ipairs(self._groups) do group:wake() end
    note_converted(self, reader) -- last: nobody may be there to read it, which raises
  end
end

--- What is wrong with a state in words, or nil: all that differs, and, where it is strict, what is missing and unexpected.
---@param name string of the optimizer
---@param found { missing: string[], unexpected: string[], differing: string[] }
---@param strict boolean
---@return string?
function statedict.describe(name, found, strict)
  local lines = {}
  for _, problem in ipairs(found.differing) do lines[#lines + 1] = "  differing: " .. problem end
  for _, kind in ipairs(strict and { "missing", "unexpected" } or {}) do
    if #found[kind] > 0 then lines[#lines + 1] = ("  %s: %s"):format(kind, table.concat(found[kind], ", ")) end
  end
  if #lines == 0 then return nil end
  return ("%s: the state does not fit; nothing was loaded\n%s"):format(name, table.concat(lines, "\n"))
end

--- Loads a state that `save` gave: for the same parameters, groups and classes, in whatever order. All
--- differences are listed in one error, and then nothing is loaded.
---@param self table
---@param state table<string, any>
---@param opts? { strict?: boolean }
---@return { missing: string[], unexpected: string[] }
function statedict.load(self, state, opts)
  local strict = options.check(self._name .. ": load_state_dict", opts, { strict = true }).strict
  local found, commit = statedict.prepare(self, state)
  local problem = statedict.describe(self._name, found, strict)
  if problem then blame(problem) end
  uninterrupted(commit)
  return { missing = found.missing, unexpected = found.unexpected }
end

return statedict
