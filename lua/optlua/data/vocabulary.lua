--- vocabulary: which number stands for which character.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"

--- What the numbers of a text stand for: `#vocabulary` of them, from 0. In field `characters` they are listed.
---@class data.Vocabulary
---@field level "char"|"byte"
---@field characters string[] number k stands for characters[k + 1]
---@field unknown? string stands for every character that is not among them
local Vocabulary = {}
Vocabulary.__index = Vocabulary

function Vocabulary:__len() return #self.characters end

function Vocabulary:__tostring() return ("vocabulary of %d %ss"):format(#self, self.level) end

--- The different code points in a tensor, in order.
local function distinct(codes)
  if #codes == 0 then return {} end
  local present = optlua.zeros(codes:max():item() + 1, { dtype = "uint8" })
  present[codes] = 1
  return present:nonzero():reshape(-1):totable()
end

--- A tensor that gives the number of each code point; -1 for those that have none, the last one among them.
local function numbers_of(codes)
  local numbers = optlua.full({ (codes[#codes] or -1) + 2 }, -1, { dtype = "int64" })
  if #codes > 0 then numbers[optlua.tensor(codes, "int64")] = optlua.arange(0, #codes) end
  return numbers
end

--- The numbers of code points. A vocabulary that lacks one raises, unless it has an `unknown`.
---@param what string who asks, for the message
---@param codes optlua.Tensor int64, or uint8 for bytes
---@return optlua.Tensor # int64
function Vocabulary:look_up(what, codes)
  if self.level == "byte" then return codes:to "int64" end
  local ids = self.numbers:index_select(1, codes:clamp(0, #self.numbers - 1))
  local missing = ids:lt(0)
  if missing:any():item() == 0 then return ids end
  if self.unknown_id then return ids:masked_fill(missing, self.unknown_id) end
  local at = missing:nonzero()[1]:item()
  local code = codes[at + 1]:item()
  blame(('%s: "%s" (U+%04X), character %d, is not in the vocabulary; let unknown = "?" stand for such')
    :format(what, utf8.char(code), code, at + 1))
end

--- The numbers of a text's characters.
---@param text string
---@return optlua.Tensor # int64 (characters)
function Vocabulary:encode(text)
  options.argument("encode", "text", text, { required = true, type = "string" })
  return self:look_up("encode", host.text_units(text, self.level == "byte"))
end

--- The text that numbers stand for.
---@param ids optlua.Tensor|integer[]|integer of any shape
---@return string
function Vocabulary:decode(ids)
  if optlua.is_tensor(ids) then ids = ids:reshape(-1):totable() end
  if type(ids) == "number" then ids = { ids } end
  options.argument("decode", "ids", ids, { required = true, type = "list" })
  local words = {}
  for k, id in ipairs(ids) do
    local at = math.tointeger(id)
    words[k] = at and self.characters[at + 1]
    if not words[k] then
      blame(("decode: number %d: 0 to %d expected, got %s"):format(k, #self - 1, tostring(id)))
    end
  end
  return table.concat(words)
end

--- All that a vocabulary is, as a plain table, for a checkpoint or a file; data.vocabulary makes it anew.
---
---     local saved = optlua.data.vocabulary("hello"):totable()
---     print(table.concat(saved.characters)) --> ehlo
---     print(optlua.data.vocabulary(saved):decode { 1, 0 }) --> he
---@return { level: "char"|"byte", characters?: string[], unknown?: string }
function Vocabulary:totable()
  if self.level == "byte" then return { level = "byte" } end
  return { level = "char", characters = table.move(self.characters, 1, #self, 1, {}), unknown = self.unknown }
end

--- A vocabulary of code points, which are sorted and different.
local function of_codes(codes, unknown)
  local self = setmetatable({ level = "char", characters = {}, unknown = unknown, numbers = numbers_of(codes) }, Vocabulary)
  for k, code in ipairs(codes) do self.characters[k] = utf8.char(code) end
  if unknown then self.unknown_id = self.numbers[utf8.codepoint(unknown) + 1]:item() end
  return self
end

local function of_bytes()
  local self = setmetatable({ level = "byte", characters = {} }, Vocabulary)
  for k = 0, 255 do self.characters[k + 1] = string.char(k) end
  return self
end

local function check_unknown(what, opts)
  if opts.unknown == nil then return end
  if opts.level == "byte" then blame(what .. ": unknown: every byte is known") end
  if utf8.len(opts.unknown) ~= 1 then
    blame(('%s: unknown: one character expected, got "%s"'):format(what, opts.unknown))
  end
end

--- The vocabulary of the units of a text.
---@param what string who asks, for the message
---@param codes optlua.Tensor code points; bytes need none
---@param opts { level: string, unknown?: string }
---@return data.Vocabulary
local function build(what, codes, opts)
  check_unknown(what, opts)
  if opts.level == "byte" then return of_bytes() end
  if opts.unknown then codes = optlua.cat { codes, optlua.tensor({ utf8.codepoint(opts.unknown) }, "int64") } end
  return of_codes(distinct(codes), opts.unknown)
end

local schema = {
  level = { default = "char", choices = { "char", "byte" } },
  unknown = { required = false, type = "string" },
}

--- What totable gave, as the text and the options that make the same vocabulary.
local function of_table(saved)
  local given = options.check("data.vocabulary", saved, {
    level = schema.level, unknown = schema.unknown, characters = { default = {}, type = "list" },
  })
  for k, character in ipairs(given.characters) do
    if type(character) ~= "string" then blame(("data.vocabulary: characters[%d]: a text expected, got a %s"):format(k, type(character))) end
  end
  return table.concat(given.characters), { level = given.level, unknown = given.unknown }
end

--- The vocabulary of a text: its different characters (UTF-8 code points), sorted; or all 256 bytes.
---
---     local vocabulary = optlua.data.vocabulary "hello"
---     print(#vocabulary, vocabulary:encode "hole") --> 4 tensor([1, 3, 2, 0])
---     print(vocabulary:decode { 1, 3, 2, 0 }) --> hole
---@param text string|table or what vocabulary:totable() gave
---@param opts? { level?: "char"|"byte", unknown?: string } level: "char"; unknown: a character that stands for
---  those that the text has not; without it they raise
---@return data.Vocabulary
local function vocabulary(text, opts)
  if type(text) == "table" and opts == nil then text, opts = of_table(text) end
  options.argument("data.vocabulary", "text", text, { required = true, type = "string" })
  opts = options.check("data.vocabulary", opts, schema)
  return build("data.vocabulary", host.text_units(text, opts.level == "byte"), opts)
end

return { vocabulary = vocabulary, build = build, is_vocabulary = function(value) return getmetatable(value) == Vocabulary end }
