--- storage: how states are stored: in which type, and how they are rounded.
--
-- `state_dtype` and `state_rounding` of a container or a group are one word for all states, or a table
-- of words by the name of the state. They say nothing about states that declare a dtype, that are
-- `exact`, or that begin as a copy of the parameter: such copies move by less than narrow types can tell.
-- Codes of 8 bits (runtime/rule/narrow.h) need blocks of a tensor that is worth it: states of fewer
-- than `least` elements, and those of a shape of their own, stay as the parameter is.
local options = require "optlua.options"
local shape = require "optlua.shape"

local storage = { least = 4096 }

storage.settings = {
  state_dtype = { required = false, type = "string|table", choices = { "bfloat16", "8bit", "8bit-all", "float32", "float64" },
    doc = "in which states are stored that declare no dtype, or a table of such by state; default: as the parameter is" },
  state_rounding = { required = false, type = "string|table", choices = { "nearest", "stochastic" },
    doc = "of narrow states, or a table of such by state; default: what the class declares, or stochastic of positive ones, else nearest" },
}

-- What is said of one state: the word for all, or its own.
local function word_for(said, name)
  if type(said) == "table" then return said[name] end
  return said
end

--- Whether a state is stored as its class says.
---@param slot table
---@return boolean
function storage.is_fixed(slot) return slot.dtype ~= nil or slot.exact end

local is_fixed = storage.is_fixed

local function dtype_for(slot, sizes, word)
  if word == nil or is_fixed(slot) then return slot.dtype end
  if word ~= "8bit" and word ~= "8bit-all" then return word end
  if slot.shape or shape.count(sizes) < storage.least then return nil end
  return slot.positive and word == "8bit" and "bfloat16" or "8bit"
end

local is_narrow = { bfloat16 = true, ["8bit"] = true }

--- A layout as it is to be stored.
---@param layout table[] slots
---@param sizes integer[] the shape of the parameter
---@param how { state_dtype?: string|table, state_rounding?: string|table }
---@return table[] layout with what dtypes and rounding slots have
function storage.apply(layout, sizes, how)
  local result = {}
  for i, slot in ipairs(layout) do
    local dtype = dtype_for(slot, sizes, word_for(how.state_dtype, slot.name))
    local rounding = is_narrow[dtype] and (word_for(how.state_rounding, slot.name) or slot.rounding
      or slot.positive and "stochastic" or "nearest")
    result[i] = setmetatable({ dtype = dtype, rounding = rounding }, { __index = slot })
  end
  return result
end

-- What is wrong with the words of a table by state.
local function check_words(key, said, problems)
  local option = storage.settings[key]
  for _, name in ipairs(options.names(said)) do
    local own = ("%s.%s"):format(key, tostring(name))
    local _, problem = options.value(own, said[name], { required = false, choices = option.choices })
    problems[#problems + 1] = problem
  end
end

--- What is wrong with what a group or a container says of the storage of states.
---@param how { state_dtype?: string|table, state_rounding?: string|table }
---@param slots? table<string, table> the states that there are, by name
---@return string[] problems
function storage.check(how, slots)
  local problems = {}
  for _, key in ipairs { "state_dtype", "state_rounding" } do
    local said = how[key]
    if type(said) == "table" then
      check_words(key, said, problems)
      for _, name in ipairs(slots and options.names(said) or {}) do
        if not slots[name] then
          problems[#problems + 1] = ("%s: %s"):format(key, options.unknown("state", name, options.names(slots)))
        elseif key == "state_dtype" and is_fixed(slots[name]) then
          problems[#problems + 1] = ("state_dtype: the state '%s' is kept as its class says"):format(name)
        end
      end
    end
  end
  return problems
end

--- Whether what is stored in one way may be converted when it is loaded: where one of the two is narrow.
---@param saved string a dtype, or "8bit"
---@param wanted string
---@return boolean
function storage.converts(saved, wanted)
  local known = { bfloat16 = true, ["8bit"] = true, float32 = true, float64 = true }
  return (is_narrow[saved] or is_narrow[wanted]) and known[saved] and known[wanted] or false
end

--- The bytes of a slot.
---@param slot table
---@param tensor optlua.Tensor the parameter
---@return integer
function storage.bytes(slot, tensor)
  local n = shape.count(slot.shape or tensor.shape)
  if slot.dtype ~= "8bit" then return n * shape.element_bytes[slot.dtype or tensor.dtype] end
  return (n + 63) // 64 * 64 + 4 * storage.blocks(n)
end

--- How many scales codes of so many elements have.
---@param n integer
---@return integer
function storage.blocks(n) return (n + 255) // 256 end

--- Whether some slots of layouts round stochastically.
---@param layouts table[][]
---@return boolean
function storage.is_stochastic(layouts)
  for _, layout in ipairs(layouts) do
    for _, slot in ipairs(layout) do
      if slot.rounding == "stochastic" then return true end
    end
  end
  return false
end

--- How the narrow states of layouts are stored: "exp_avg 8bit, exp_avg_sq bfloat16 (stochastic)"; or nil.
---@param layouts table[][]
---@return string?
function storage.text(layouts)
  local words, known = {}, {}
  for _, layout in ipairs(layouts) do
    for _, slot in ipairs(layout) do
      local word = is_narrow[slot.dtype] and ("%s %s%s"):format(slot.name, slot.dtype,
        slot.rounding == "stochastic" and " (stochastic)" or "")
      if word and not known[word] then words[#words + 1], known[word] = word, true end
    end
  end
  return words[1] and table.concat(words, ", ")
end

return storage
