--- lexer: the tokens of a Lua source, as far as a look for traps needs them.
local lexer = {}

-- Patterns in the order in which they are tried; what they match is one token of that kind.
local rules = {
  { "space", "^%s+" }, { "space", "^%-%-%[(=*)%[.-%]%1%]" }, { "space", "^%-%-[^\n]*" },
  { "string", "^%[(=*)%[.-%]%1%]" }, { "name", "^[%a_][%w_]*" }, { "number", "^%.?%d[%w_.]*" },
  { "symbol", "^%.%.%." }, { "symbol", "^[=~<>]=" }, { "symbol", "^%.%." }, { "symbol", "^//" }, { "symbol", "^." },
}

-- The end of a string that begins at a quote.
local function end_of_string(source, at)
  local quote = source:sub(at, at)
  local k = at + 1
  while k <= #source and source:sub(k, k) ~= quote do
    if source:sub(k, k) == "\\" then k = k + 1 end
    k = k + 1
  end
  return k
end

local function next_token(source, at)
  if source:find("^[\"']", at) then return "string", end_of_string(source, at) end
  for _, rule in ipairs(rules) do
    local _, last = source:find(rule[2], at)
    if last then return rule[1], last end
  end
end

--- The tokens of a source, without spaces and comments.
---@param source string
---@return { kind: string, text: string, line: integer }[]
function lexer.tokens(source)
  local list, at, line = {}, 1, 1
  while at <= #source do
    local kind, last = next_token(source, at)
    local text = source:sub(at, last)
    if kind ~= "space" then list[#list + 1] = { kind = kind, text = text, line = line } end
    line = line + select(2, text:gsub("\n", ""))
    at = last + 1
  end
  return list
end

return lexer
