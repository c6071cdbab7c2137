-- Examples in the documentation: Lua that prints, and after `-->` what it prints.
local assert = require "luassert"
local optlua = require "optlua"

local examples = {}

--- What a chunk prints, words separated by single spaces.
local function printed(chunk)
  local lines = {}
  local env = setmetatable({
    optlua = optlua,
    print = function(...)
      local words = table.pack(...)
      for k = 1, words.n do words[k] = tostring(words[k]) end
      lines[#lines + 1] = table.concat(words, " ")
    end,
  }, { __index = _G })
  assert(load(chunk, "=example", "t", env))()
  return (table.concat(lines, "\n"):gsub("%s+", " "))
end

--- Runs an example; what follows each `-->` is what it prints.
function examples.check(example)
  local expected = {}
  for text in example:gmatch "%-%->([^\n]*)" do expected[#expected + 1] = text end
  local text = table.concat(expected, " "):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  assert.equal(text, printed(example))
end

return examples
