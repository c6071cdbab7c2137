--- memory: what a class with a step of its own keeps: the states that it declared, in the memory of the group, and whatever
--- else its step puts into `group.state`.
--
-- Group.memory is a table: by parameter a table of values, by word a value of the group. Declared states and `step` are in it during
-- a step only. Values are saved flat, as state.<parameter>.<key> and memory.<group>.<key>; a tensor in a table has a path for a key:
-- "old_dirs/3". Beside them stands a list of them, under "#contents".
local blame = require "optlua.blame"
local core = require("optlua.core").hidden.optim
local check_saved = require "optlua.optim.saved"
local copy = require "optlua.snapshot"
local optlua = require "optlua"
local shape = require "optlua.shape"

local describe = shape.describe

local memory = {}

--- The states that were declared for a parameter.
---@param group optlua.optim.Group
---@param i integer
---@return table[]
function memory.slots(group, i) return group.of_shape[group.shape_of[i]] end

-- A step ------------------------------------------------------------------------------------------------

--- What is needed to put back what a group keeps.
---@param group optlua.optim.Group
---@param places integer[] of the parameters in the group that are given tables
---@return table opened for the functions below
function memory.new(group, places)
  local opened = { group = group, places = places, made = {}, views = {}, old = {}, steps = {}, before = {}, present = {} }
  for key, value in pairs(group.memory) do opened.before[key] = copy(value) end
  return opened
end

--- Gives parameters their tables: declared states as tensors, the count of the update, and what else was there.
---@param opened table
function memory.open(opened)
  local group = opened.group
  for k, i in ipairs(opened.places) do
    opened.made[k] = group.handle:grow(i)
    opened.steps[k], opened.views[k] = group.handle:state(i)
    opened.old[k] = copy(opened.views[k])
    local p = group.params[i]
    local state = group.memory[p] or {}
    for n, slot in ipairs(memory.slots(group, i)) do state[slot.name] = opened.views[k][n] end
    state.step = opened.steps[k] + 1
    group.memory[p] = state
  end
end

-- Takes a declared state back: another tensor in its place is copied.
local function take_slot(what, slot, view, value)
  if rawequal(view, value) then return end
  local wanted = describe(view.dtype, view.shape)
  local got = optlua.is_tensor(value) and describe(value.dtype, value.shape) or type(value)
  if got ~= wanted then blame(("%s.%s: %s expected, got %s"):format(what, slot.name, wanted, got)) end
  view:copy_(value)
end

-- Checks the keys of values that will be saved by them.
local function check_keys(what, values)
  for key, value in pairs(values) do
    if not (type(key) == "string" and key:find "^[%a_][%w_]*$") and not (math.type(key) == "integer" and key > 0) then
      blame(("%s: a key is a word or a count, not %s"):format(what, type(key) == "string" and ("%q"):format(key) or tostring(key)))
    end
    if type(value) == "table" then check_keys(("%s.%s"):format(what, key), value) end
  end
end

local function check(what, values)
  check_saved(what, values)
  check_keys(what, values)
end

-- What a parameter has besides states, under words that a state cannot bear either.
local function check_words(what, state, step)
  if not rawequal(state.step, step) then blame(what .. ".step: it counts the updates of the parameter and cannot be set") end
  if state.train_form ~= nil then blame(what .. ".train_form: the form of the parameter in training is saved under this word") end
end

-- Adds the tensors in a value to a list, with their names; a table may be there once.
local function gather(list, what, value)
  if optlua.is_tensor(value) then
    list[#list + 1], list.names[#list + 1] = value, what
  elseif type(value) == "table" then
    local other = list.names[value]
    if other then blame(("%s is the table that %s is; they would come back as two: copy one"):format(what, other)) end
    list.names[value] = what
    for key, item in pairs(value) do gather(list, ("%s.%s"):format(what, key), item) end
  end
end

-- Raises where values are one, or share memory, with each other, with declared states or with parameters: they come back apart.
local function check_apart(opened)
  local group, list, name_of = opened.group, { names = {} }, {}
  for i, p in ipairs(group.params) do
    gather(list, ("parameter '%s'"):format(group.names[i]), p)
    name_of[p] = (" of '%s'"):format(group.names[i])
  end
  for k, i in ipairs(opened.places) do
    for n, slot in ipairs(memory.slots(group, i)) do
      gather(list, ("group.state of '%s'.%s"):format(group.names[i], slot.name), opened.views[k][n])
    end
  end
  local own = #list
  for key, value in pairs(group.memory) do gather(list, "group.state" .. (name_of[key] or "." .. key), value) end
  if #list == own then return end
  local first, second = core.overlap(list)
  if first then
    blame(("%s shares memory with %s; they would come back as two: clone one"):format(list.names[second], list.names[first]))
  end
end

--- After the step: copies declared states that were replaced, and raises for what cannot be saved.
---@param opened table
function memory.close(opened)
  local group, own, shared = opened.group, {}, {}
  for k, i in ipairs(opened.places) do
    local p, what = group.params[i], ("group.state of '%s'"):format(group.names[i])
    local state = group.memory[p]
    if type(state) ~= "table" then blame(("%s: a table expected, got %s"):format(what, type(state))) end
    for n, slot in ipairs(memory.slots(group, i)) do
      take_slot(what, slot, opened.views[k][n], state[slot.name])
      state[slot.name] = nil
    end
    check_words(what, state, opened.steps[k] + 1)
    state.step = nil
    check(what, state)
  end
  for _, p in ipairs(group.params) do own[p] = true end
  for key, value in pairs(group.memory) do
    if not own[key] then shared[key] = value end
  end
  check("group.state", shared)
  check_apart(opened)
end

-- Puts the declared states of one parameter back, and drops those that the step made.
local function restore_slots(opened, k)
  for n, tensor in ipairs(opened.old[k] or {}) do opened.views[k][n]:copy_(tensor) end
  opened.group.handle:shrink(opened.places[k], opened.made[k])
end

--- Notes the parameters whose gradient is present now: their update will count.
---@param opened table
function memory.note_present(opened)
  for k, i in ipairs(opened.places) do
    opened.present[k] = opened.present[k] or opened.group.params[i].grad ~= nil
  end
end

--- After `close`: puts back what was made for parameters that turned out to have no gradient; notes the others.
---@param opened table
function memory.settle(opened)
  opened.counted = {}
  for k, i in ipairs(opened.places) do
    if opened.present[k] then
      opened.counted[#opened.counted + 1] = i
    elseif opened.steps[k] == 0 then
      restore_slots(opened, k)
    end
  end
end

--- Counts the update of the parameters that `settle` noted. Cannot fail.
---@param opened table
function memory.count(opened)
  for _, i in ipairs(opened.counted) do opened.group.handle:count(i) end
end

--- Puts everything back as it was at `open`.
---@param opened table
function memory.undo(opened)
  opened.group.memory = opened.before
  for k in ipairs(opened.made) do restore_slots(opened, k) end
end

-- Saving -------------------------------------------------------------------------------------------------

local function has_tensor(value)
  if optlua.is_tensor(value) then return true end
  for _, item in pairs(type(value) == "table" and value or {}) do
    if has_tensor(item) then return true end
  end
  return false
end

-- Puts a value into a flat table; tables with tensors in them, by paths.
local function flatten(state, key, value)
  if optlua.is_tensor(value) then
    state[key] = value
  elseif has_tensor(value) then
    for name, item in pairs(value) do flatten(state, ("%s/%s"):format(key, name), item) end
  else
    state[key] = copy(value)
  end
end

local CONTENTS = "#contents" -- no word that a step could use

-- What a value is, as text; `param` is the parameter that it is kept for, if any.
local function kind_of(value, param)
  if not optlua.is_tensor(value) then return type(value) end
  local like = param and describe(value.dtype, value.shape) == describe(value.dtype, param.shape)
  return like and value.dtype .. " of the parameter's shape" or describe(value.dtype, value.shape)
end

-- Adds values, and a list of them, by which what was lost or changed since is found.
local function save_values(state, prefix, values, param)
  local flat, lines = {}, {}
  for key, value in pairs(values) do flatten(flat, key, value) end
  for path, value in pairs(flat) do
    state[prefix .. path], lines[#lines + 1] = value, ("%s: %s"):format(path, kind_of(value, param))
  end
  table.sort(lines)
  if lines[1] then state[prefix .. CONTENTS] = table.concat(lines, "\n") end
end

-- Whether values are those of the list that was saved with them, if one was.
local function are_listed(reader, prefix, param)
  local text, good = reader:take_optional(prefix .. CONTENTS), true
  for path, kind in tostring(text or ""):gmatch "([^\n]+): ([^\n]+)" do
    local key = prefix .. path
    local value = reader.state[key]
    local got = kind_of(value, param)
    if value == nil then
      table.insert(reader.missing, key)
    elseif got ~= kind then
      reader:complain("%s: %s expected, got %s", key, kind, got)
    end
    good = good and got == kind
  end
  return good
end

--- Adds what a group keeps besides declared states.
---@param state table<string, any>
---@param group optlua.optim.Group
function memory.save(state, group)
  local name_of, shared = {}, {}
  for i, p in ipairs(group.params) do name_of[p] = group.names[i] end
  for key, value in pairs(group.memory) do
    if name_of[key] then save_values(state, ("state.%s."):format(name_of[key]), value, key) else shared[key] = value end
  end
  save_values(state, ("memory.%s."):format(group.name), shared)
end

-- Puts a value where its path leads, through tables that paths have `made`; false where another value is.
local function place(values, path, value, made)
  local last
  for word in path:gmatch "[^/]+" do
    if last then
      if values[last] == nil then
        values[last] = {}
        made[values[last]] = true
      end
      values = values[last]
      if not made[values] then return false end
    end
    last = math.tointeger(tonumber(word)) or word
  end
  if last == nil or values[last] ~= nil then return false end
  values[last] = copy(value)
  return true
end

-- The words among the keys of a state but those of lists, sorted.
local function words_of(state)
  local words = {}
  for key in pairs(state) do words[#words + 1] = type(key) == "string" and not key:find(CONTENTS .. "$") and key or nil end
  table.sort(words)
  return words
end

--- Reads what `save` added. Where some of it is missing, and that is allowed, the group begins anew.
---@param group optlua.optim.Group
---@param reader table its `state`, and methods that take a value and complain
---@param is_slot fun(i: integer, name: string): boolean what of parameter i is read elsewhere
---@return table
function memory.load(group, reader, is_slot)
  local result, place_of, made = {}, {}, {}
  local function take(values, path, key)
    if not place(values, path, reader:take(key), made) then reader:complain("%s: another value is where this one belongs", key) end
  end
  for i, name in ipairs(group.names) do place_of[name] = i end
  for _, key in ipairs(words_of(reader.state)) do
    local kind, name, path = key:match "^(%a+)%.(.*)%.([^.]+)$"
    local i = kind == "state" and place_of[name]
    if i and path ~= "step" and path ~= "train_form" and not is_slot(i, path) then
      local p = group.params[i]
      result[p] = result[p] or {}
      take(result[p], path, key)
    elseif kind == "memory" and name == group.name then
      take(result, path, key)
    end
  end
  local good = are_listed(reader, ("memory.%s."):format(group.name))
  for i, name in ipairs(group.names) do good = are_listed(reader, ("state.%s."):format(name), group.params[i]) and good end
  return good and result or {}
end

-- Bytes of the tensors in a value.
local function bytes_in(value)
  if optlua.is_tensor(value) then return shape.bytes(value) end
  if type(value) ~= "table" then return 0 end
  local bytes = 0
  for _, item in pairs(value) do bytes = bytes + bytes_in(item) end
  return bytes
end

--- Bytes of the tensors that a group keeps besides declared states.
---@param group optlua.optim.Group
---@return integer
function memory.bytes(group) return group.memory and bytes_in(group.memory) or 0 end

return memory
