-- Tensors print as PyTorch prints them.
local optlua = require "optlua"

local function cases(path)
  local list, case = {}, nil
  for line in io.lines(path) do
    local options, expression = line:match "^options: (.*)$", line:match "^lua: (.*)$"
    if options then case = { options = options, lines = {} }
    elseif expression then case.expression = expression
    elseif line == "." then
      case.text = table.concat(case.lines, "\n")
      list[#list + 1] = case
    elseif case then case.lines[#case.lines + 1] = line end
  end
  return list
end

local function text_of(case)
  optlua.set_printoptions { profile = "default" }
  assert(load("optlua.set_printoptions {" .. case.options .. "}", "options", "t", { optlua = optlua }))()
  local make = assert(load("return " .. case.expression, "case", "t", { optlua = optlua, math = math }))
  local text = tostring(make())
  optlua.set_printoptions { profile = "default" }
  return text
end

describe("printing", function()
  for _, case in ipairs(cases "tests/golden/print.txt") do
    it(case.expression .. " {" .. case.options .. "}", function()
      assert.are.equal(case.text, text_of(case))
    end)
  end

  it("breaks the line before a suffix that does not fit", function()
    local text = tostring(optlua.ones(11, { requires_grad = true }) * 0.12345)
    assert.are.equal("tensor([0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235,\n"
      .. "        0.1235, 0.1235], grad_fn=<mul>)", text)
  end)

  it("refuses options that make no sense", function()
    assert.has_error(function() optlua.set_printoptions { precison = 3 } end)
    assert.error_matches(function() optlua.set_printoptions { precison = 3 } end, 'did you mean "precision"')
    assert.error_matches(function() optlua.set_printoptions { precision = -1 } end, "from 0 to 50")
    assert.error_matches(function() optlua.set_printoptions { precision = 1.5 } end, "integer expected, got 1.5")
    assert.error_matches(function() optlua.set_printoptions { profile = "long" } end, "default|short|full")
    assert.are.equal("tensor([0.5000])", tostring(optlua.tensor { 0.5 }))
  end)

  it("does not fail for a released tensor", function()
    local t = optlua.ones(2)
    debug.getmetatable(t).__gc(t)
    assert.are.equal("tensor (released)", tostring(t))
  end)
end)
