--- traps: known traps, found in the source of scripts.
--
--   self.a, self.b = x, y      Lua assigns from right to left: the members would be named in the wrong order
--   if s.x / s.x == 0 / p == g  in an update rule: a symbol is always true and equal only to itself
--   if t:all() / not t:gt(0)    a mask is a tensor, which is always true; so is the number 0 that its item() gives
local lexer = require "optlua.tools.lexer"

local traps = {}

local opens = { ["function"] = true, ["if"] = true, ["for"] = true, ["while"] = true, ["repeat"] = true }

local function add(found, token, message) found[#found + 1] = { line = token.line, message = message } end

local function text_at(tokens, at) return tokens[at] and tokens[at].text end

-- The place behind the bracket that closes the one at a place.
local function behind_bracket(tokens, at)
  local depth = 0
  repeat
    local text = text_at(tokens, at)
    if text == "(" or text == "[" or text == "{" then depth = depth + 1 end
    if text == ")" or text == "]" or text == "}" then depth = depth - 1 end
    at = at + 1
  until depth == 0 or not tokens[at]
  return at
end

-- self.a, self.b = … ------------------------------------------------------------------------------------------

-- The place behind a member that begins here: self.a, self.a.b, self.a[1]; nil: there is none.
local function behind_member(tokens, at)
  if text_at(tokens, at) ~= "self" then return nil end
  local first = at + 1
  at = first
  while text_at(tokens, at) == "." or text_at(tokens, at) == "[" do
    at = text_at(tokens, at) == "." and at + 2 or behind_bracket(tokens, at)
  end
  return at > first and at or nil
end

local function look_for_assignment(tokens, k, found)
  local at = behind_member(tokens, k)
  if not at or text_at(tokens, k - 1) == "," then return end
  local count = 1
  while at and text_at(tokens, at) == "," do at, count = behind_member(tokens, at + 1), count + 1 end
  if count > 1 and at and text_at(tokens, at) == "=" then
    add(found, tokens[k], "several members in one assignment: Lua assigns from right to left, so they would be named in the "
      .. "wrong order; write one a line")
  end
end

-- Update rules ------------------------------------------------------------------------------------------------

local makers = { define = true, transform = true }

-- What a table that is open at a place is handed to: the name of a function, or nil.
local function receiver(tokens, at)
  local depth = 0
  for k = at - 1, 1, -1 do
    local text = tokens[k].text
    if text == "}" or text == ")" or text == "]" or text == "end" then depth = depth + 1 end
    if text == "{" or text == "(" or text == "[" or opens[text] then
      if depth == 0 then
        local before = tokens[k - 1]
        if before and before.kind == "name" and not opens[before.text] and before.text ~= "return" then return before.text end
        if text ~= "{" or not before or before.text ~= "(" and before.text ~= "," then return nil end
      else
        depth = depth - 1
      end
    end
  end
end

-- What a source says of its rules: whether it makes classes, and the names of functions that are an update.
local function rules_of(tokens)
  local rules = { names = { update = true }, any = false }
  for k, token in ipairs(tokens) do
    if makers[token.text] then rules.any = true end
    local value = tokens[k + 2]
    if token.text == "update" and text_at(tokens, k + 1) == "=" and value and value.kind == "name" and value.text ~= "function" then
      rules.names[value.text] = true
    end
  end
  return rules
end

-- Whether a rule begins here: the place of its `function`.
local function rule_at(tokens, k, rules)
  if not rules.any then return nil end
  if tokens[k].text == "update" and text_at(tokens, k + 1) == "=" and text_at(tokens, k + 2) == "function" then
    local name = receiver(tokens, k)
    return (name == nil or makers[name]) and k + 2 or nil
  end
  if tokens[k].text ~= "function" or not tokens[k + 1] or tokens[k + 1].kind ~= "name" then return nil end
  local at = k + 1
  while text_at(tokens, at + 1) == "." do at = at + 2 end
  return text_at(tokens, at + 1) == "(" and rules.names[tokens[at].text] and k or nil
end

-- The names of the parameters of the function that begins at a token, and the place behind them.
local function parameters(tokens, k)
  local names, at = {}, k + 1
  while tokens[at] and tokens[at].text ~= "(" do at = at + 1 end
  local last = behind_bracket(tokens, at)
  for m = at + 1, last - 2 do
    if tokens[m].kind == "name" then names[#names + 1] = tokens[m].text end
  end
  return names, last
end

-- The place behind a symbol of the rule (p, g, s.x, a local that was made of them; methods of them), or nil.
local function behind_symbol(tokens, at, rule)
  local token, before = tokens[at], text_at(tokens, at - 1)
  if not token or token.kind ~= "name" or before == "." or before == ":" then return nil end
  local last
  if rule.symbols[token.text] then last = at + 1 end
  if token.text == rule.s and text_at(tokens, at + 1) == "." then last = at + 3 end
  if not last or text_at(tokens, last) == "." or text_at(tokens, last) == "(" or text_at(tokens, last) == "[" then return nil end
  while text_at(tokens, last) == ":" do last = behind_bracket(tokens, last + 2) end
  return last
end

local arithmetic = { ["+"] = true, ["-"] = true, ["*"] = true, ["/"] = true, ["^"] = true }
local compares = { ["=="] = true, ["~="] = true }
local orders = { ["<"] = true, [">"] = true, ["<="] = true, [">="] = true }
local logic = { ["and"] = true, ["or"] = true, ["not"] = true }

-- The place behind one operand: a number, or a name with its fields, calls and indices.
local function behind_operand(tokens, at)
  while text_at(tokens, at) == "-" do at = at + 1 end
  if text_at(tokens, at) == "(" then
    at = behind_bracket(tokens, at)
  else
    at = at + 1
  end
  while true do
    local text = text_at(tokens, at)
    if text == "." or text == ":" then at = at + 2
    elseif text == "(" or text == "[" then at = behind_bracket(tokens, at)
    else return at end
  end
end

-- The places in front of and behind the sum or product that a symbol is part of, and the brackets around it alone.
local function extent(tokens, first, last)
  while true do
    while arithmetic[text_at(tokens, last)] do last = behind_operand(tokens, last + 1) end
    local caller = tokens[first - 2]
    local called = caller and (caller.kind == "name" and not logic[caller.text] and not opens[caller.text]
      and caller.text ~= "elseif" and caller.text ~= "until" and caller.text ~= "return" or caller.text == ")" or caller.text == "]")
    if text_at(tokens, first - 1) ~= "(" or text_at(tokens, last) ~= ")" or called then return first - 1, last end
    first, last = first - 1, last + 1
  end
end

local tests = { ["if"] = true, ["elseif"] = true, ["while"] = true, ["until"] = true }
local begins = { ["="] = true, ["("] = true, [","] = true, ["{"] = true, ["return"] = true, ["not"] = true, ["or"] = true,
  ["if"] = true, ["elseif"] = true, ["while"] = true, ["until"] = true }

local function is_tested(before, after)
  if before == "not" or after == "and" then return true end
  if tests[before] then return not arithmetic[after] and not compares[after] and not orders[after] end
  return after == "or" and begins[before] or (before == "and" or before == "or") and (after == "then" or after == "do")
end

-- One place of a rule's body.
local function look_at_symbol(tokens, at, rule, found)
  local behind = behind_symbol(tokens, at, rule)
  if not behind then return end
  local first, last = extent(tokens, at, behind)
  local before, after = text_at(tokens, first), text_at(tokens, last)
  local name = tokens[at].text == rule.s and rule.s .. "." .. tokens[at + 2].text or tokens[at].text
  if compares[before] or compares[after] then
    add(found, tokens[at], ("%s is compared with == or ~=: a symbol equals only itself; write optim.where(optim.eq(…), …)"):format(name))
  elseif is_tested(before, after) then
    add(found, tokens[at], ("%s is tested for truth: a symbol is always true; write optim.where(…)"):format(name))
  end
end

local no_local = { ["."] = true, [":"] = true, [","] = true, ["{"] = true, ["("] = true }

-- NAME = expression: the name is a symbol from here on if a sum or product with a symbol is all that the expression is.
local function note_local(tokens, at, rule)
  local name = tokens[at]
  local before = text_at(tokens, at - 1)
  if name.kind ~= "name" or no_local[before] or name.text == rule.s then return end
  if before == "for" then rule.symbols[name.text] = nil end
  if text_at(tokens, at + 1) ~= "=" then return end
  local last, symbol = at + 1, false
  repeat
    local first = last + 1
    last = behind_operand(tokens, first)
    for k = first, last - 1 do symbol = symbol or behind_symbol(tokens, k, rule) ~= nil end
  until not arithmetic[text_at(tokens, last)]
  local after = text_at(tokens, last)
  local whole = not (compares[after] or orders[after] or logic[after]) and not logic[text_at(tokens, at + 2)]
    and not opens[text_at(tokens, at + 2)] and text_at(tokens, at + 2) ~= "{"
  rule.symbols[name.text] = symbol and whole or nil
end

-- The place behind the `end` of the block that begins in front of a place.
local function behind_block(tokens, at)
  local depth, loops = 1, 0
  while tokens[at] and depth > 0 do
    local text = tokens[at].text
    if tokens[at].kind == "name" then
      if text == "for" or text == "while" then loops = loops + 1 end
      if text == "do" and loops > 0 then loops = loops - 1 elseif opens[text] or text == "do" then depth = depth + 1 end
      if text == "end" or text == "until" then depth = depth - 1 end
    end
    at = at + 1
  end
  return at
end

-- function(p, g, s, h) … end, or (p, s, h): a rule whose states are the argument at a place.
local function look_into_function(tokens, start, place_of_states, found)
  local names, at = parameters(tokens, start)
  local rule = { s = names[place_of_states], symbols = {} }
  for i = 1, place_of_states - 1 do
    if names[i] then rule.symbols[names[i]] = true end
  end
  for place = at, behind_block(tokens, at) - 1 do
    look_at_symbol(tokens, place, rule, found)
    note_local(tokens, place, rule)
  end
end

-- update = function(p, g, s, h) … end
local function look_into_rule(tokens, k, rules, found)
  local start = rule_at(tokens, k, rules)
  if start then look_into_function(tokens, start, 3, found) end
end

-- Conditions on tensors --------------------------------------------------------------------------------------

local masks = {}
for name in ("all any eq ne lt le gt ge isclose isfinite isinf isnan logical_and logical_not logical_or logical_xor"):gmatch "%S+" do
  masks[name] = true
end

-- The place in front of the bracket that is closed at a place.
local function before_bracket(tokens, at)
  local depth = 0
  repeat
    local text = text_at(tokens, at)
    if text == ")" or text == "]" or text == "}" then depth = depth + 1 end
    if text == "(" or text == "[" or text == "{" then depth = depth - 1 end
    at = at - 1
  until depth == 0 or not tokens[at]
  return at
end

-- What stands in front of the operand whose method is called at a place (that of the colon).
local function before_operand(tokens, at)
  repeat
    at = at - 1
    while text_at(tokens, at) == ")" or text_at(tokens, at) == "]" do at = before_bracket(tokens, at) end
    local token = tokens[at]
    if token and token.kind == "name" and not logic[token.text] and not tests[token.text] then at = at - 1 end
  until text_at(tokens, at) ~= "." and text_at(tokens, at) ~= ":"
  return text_at(tokens, at)
end

local ends = { ["then"] = true, ["and"] = true, ["or"] = true }

local function look_at_mask(tokens, k, found)
  local name = tokens[k].text == ":" and text_at(tokens, k + 1)
  if not masks[name] or text_at(tokens, k + 2) ~= "(" then return end
  local last, item = behind_bracket(tokens, k + 2), false
  if text_at(tokens, last) == ":" and text_at(tokens, last + 1) == "item" and text_at(tokens, last + 2) == "(" then
    last, item = behind_bracket(tokens, last + 2), true
  end
  local before, after = before_operand(tokens, k), text_at(tokens, last)
  local whole = not (after and (arithmetic[after] or compares[after] or orders[after] or after == ":" or after == "." or after == "["))
  if before == "and" and after == "or" then return end -- a and mask or b chooses
  local tested = ends[after] and not (compares[before] or orders[before] or arithmetic[before]) or whole and (before == "not" or tests[before])
  if not tested or found[#found] and found[#found].line == tokens[k].line then return end
  add(found, tokens[k], item and "the number that item() gives is tested for truth: 0 is true in Lua; compare it: ~= 0"
    or (":%s(…) is tested for truth: it gives a tensor, which is always true; write :%s:item() ~= 0"):format(name,
      (name == "all" or name == "any") and name .. "()" or name .. "(…):any()"))
end

--- The traps in a source.
---@param source string
---@return { line: integer, message: string }[]
function traps.source(source)
  local found, tokens = {}, lexer.tokens(source)
  local rules = rules_of(tokens)
  for k in ipairs(tokens) do
    look_for_assignment(tokens, k, found)
    look_into_rule(tokens, k, rules, found)
    look_at_mask(tokens, k, found)
  end
  return found
end

local makes = { centralize = true, define = true, lookahead = true, sam = true, swa = true, transform = true, wrapper = true }

-- Whether a chunk itself returns something, not only functions in it.
local function returns(tokens)
  local depth = 0
  for _, token in ipairs(tokens) do
    local text = token.kind == "name" and token.text
    if text == "function" or text == "if" or text == "do" or text == "repeat" then depth = depth + 1 end
    if text == "end" or text == "until" then depth = depth - 1 end
    if text == "return" and depth == 0 then return true end
  end
  return false
end

-- The names under which a script has the module: X = require "optlua.optim", X = optlua.optim.
local function names_of_optim(tokens)
  local names = { optim = true }
  for k, token in ipairs(tokens) do
    if token.text == "optim" and text_at(tokens, k - 1) == "." or token.text:find "^.optlua%.optim.$" then
      for at = k - 1, math.max(k - 7, 2), -1 do
        if tokens[at].text == "=" then names[tokens[at - 1].text] = true end
      end
    end
  end
  return names
end

-- Whether the token at k is `require` of a module that is not this library's.
local function requires_other(tokens, k)
  local name = text_at(tokens, k + 1) == "(" and text_at(tokens, k + 2) or text_at(tokens, k + 1)
  return tokens[k].text == "require" and name ~= nil and not name:find "^.optlua%f[^%w_]"
end

--- Whether a script may return or register classes of optimizers: those that it makes, or those of a module. The script of a spec
--- does not.
---@param source string
---@return boolean
---@return boolean makes whether it makes some
function traps.hands_out_classes(source)
  local tokens = lexer.tokens(source)
  local names, made, registers, borrows, is_spec = names_of_optim(tokens), false, false, false, false
  for k, token in ipairs(tokens) do
    if text_at(tokens, k - 1) == "." and names[text_at(tokens, k - 2)] then
      made = made or makes[token.text] or false
      registers = registers or token.text == "register"
    end
    borrows = borrows or requires_other(tokens, k)
    is_spec = is_spec or token.text == "spec" and text_at(tokens, k - 1) == "."
  end
  return registers or (made or borrows and not is_spec) and returns(tokens), made
end

--- The traps in a rule of which the lines are known.
---@param source string
---@param first integer the line where its `function` stands
---@param last integer that of its `end`
---@param place_of_states integer which of its arguments the states are: 3 of update, 2 of the others
---@return { line: integer, message: string }[]
function traps.rule(source, first, last, place_of_states)
  local found, tokens = {}, lexer.tokens(source)
  for k, token in ipairs(tokens) do
    if token.text == "function" and token.line == first then
      local behind = behind_block(tokens, select(2, parameters(tokens, k)))
      if text_at(tokens, behind - 1) == "end" and tokens[behind - 1].line == last then
        look_into_function(tokens, k, place_of_states, found)
      end
    end
  end
  return found
end

return traps
