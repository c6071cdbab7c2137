--- check: `optlua check FILE...`: looks for known traps in the source of scripts.
--
--   self.a, self.b = x, y      Lua assigns from right to left: the members would be named in the wrong order
--   if s.x / s.x == 0 / p == g  in an update rule: a symbol is always true and equal only to itself
local lexer = require "optlua.tools.lexer"

local check = {}

local opens = { ["function"] = true, ["if"] = true, ["for"] = true, ["while"] = true, ["repeat"] = true }

local function add(found, token, message) found[#found + 1] = { line = token.line, message = message } end

-- self.a, self.b = …
local function look_for_assignment(tokens, k, found)
  local function member(at)
    return tokens[at] and tokens[at].text == "self" and tokens[at + 1] and tokens[at + 1].text == "." and tokens[at + 2]
      and tokens[at + 2].kind == "name"
  end
  if not member(k) or tokens[k - 1] and tokens[k - 1].text == "," then return end
  local at, count = k + 3, 1
  while tokens[at] and tokens[at].text == "," and member(at + 1) do at, count = at + 4, count + 1 end
  if count > 1 and tokens[at] and tokens[at].text == "=" then
    add(found, tokens[k], "several members in one assignment: Lua assigns from right to left, so they would be named in the "
      .. "wrong order; write one a line")
  end
end

-- The names of the parameters of the function that begins at a token, and the place behind them.
local function parameters(tokens, k)
  local names, at = {}, k + 1
  while tokens[at] and tokens[at].text ~= "(" do at = at + 1 end
  at = at + 1
  while tokens[at] and tokens[at].text ~= ")" do
    if tokens[at].kind == "name" then names[#names + 1] = tokens[at].text end
    at = at + 1
  end
  return names, at + 1
end

-- Whether the tokens at a place are a symbol of the rule: p, g or s.x; and how many they are.
local function symbol_at(tokens, at, rule)
  local token = tokens[at]
  if not token or token.kind ~= "name" or tokens[at - 1] and tokens[at - 1].text == "." then return nil end
  local following = tokens[at + 1] and tokens[at + 1].text
  if (token.text == rule.p or token.text == rule.g) and following ~= "." and following ~= "(" then return 1 end
  if token.text == rule.s and following == "." and not (tokens[at + 3] and tokens[at + 3].text:find "^[.(]") then return 3 end
end

local compares = { ["=="] = true, ["~="] = true }
local tests = { ["if"] = true, ["elseif"] = true, ["while"] = true, ["until"] = true, ["not"] = true, ["and"] = true, ["or"] = true }
local ends = { ["then"] = true, ["do"] = true, ["and"] = true }

-- One place of a rule's body.
local function look_at_symbol(tokens, at, rule, found)
  local size = symbol_at(tokens, at, rule)
  if not size then return end
  local before, after = tokens[at - 1] and tokens[at - 1].text, tokens[at + size] and tokens[at + size].text
  local name = size == 3 and tokens[at].text .. "." .. tokens[at + 2].text or tokens[at].text
  if compares[before] or compares[after] then
    add(found, tokens[at], ("%s is compared with == or ~=: a symbol equals only itself; write optim.where(optim.eq(…), …)"):format(name))
  elseif before == "not" or tests[before] and ends[after] or before ~= "and" and before ~= "or" and after == "and" then
    add(found, tokens[at], ("%s is tested for truth: a symbol is always true; write optim.where(…)"):format(name))
  end
end

-- update = function(p, g, s, h) … end
local function look_into_rule(tokens, k, found)
  local named = tokens[k].text == "update" and tokens[k + 1] and tokens[k + 1].text == "=" and tokens[k + 2]
    and tokens[k + 2].text == "function"
  if not named then return end
  local names, at = parameters(tokens, k + 2)
  local rule, depth = { p = names[1], g = names[2], s = names[3] }, 1
  while tokens[at] and depth > 0 do
    local text = tokens[at].text
    if opens[text] then depth = depth + 1 end
    if text == "do" and not tokens[at].of_loop then depth = depth + 1 end
    if text == "for" or text == "while" then
      for m = at + 1, #tokens do
        if tokens[m].text == "do" then tokens[m].of_loop = true break end
      end
    end
    if text == "end" or text == "until" then depth = depth - 1 end
    look_at_symbol(tokens, at, rule, found)
    at = at + 1
  end
end

--- The traps in a source.
---@param source string
---@return { line: integer, message: string }[]
function check.source(source)
  local found, tokens = {}, lexer.tokens(source)
  for k in ipairs(tokens) do
    look_for_assignment(tokens, k, found)
    look_into_rule(tokens, k, found)
  end
  return found
end

--- The command: prints what it finds, and ends with status 1 if there is something.
---@param ... string files
function check.run(...)
  local status = 0
  for _, path in ipairs { ... } do
    local file, problem = io.open(path, "rb")
    if not file then
      io.stderr:write("optlua check: ", problem, "\n")
      os.exit(2, true)
    end
    local source = file:read "a"
    file:close()
    local chunk, wrong = load(source, "@" .. path, "t")
    if not chunk then
      print(wrong)
      status = 1
    end
    for _, one in ipairs(chunk and check.source(source) or {}) do
      print(("%s:%d: %s"):format(path, one.line, one.message))
      status = 1
    end
  end
  if status == 0 then print "no traps found" end
  os.exit(status, true)
end

return check
