-- The tests of the scripts, beside them: each script has one, and `optlua test scripts` passes.
local process = require "process"

describe("the scripts", function()
  it("have a test each", function()
    local names = {}
    for name in process.run("scripts", "ls *.lua").out:gmatch "(%S+)%.lua\n" do names[name] = true end
    for name in pairs(names) do
      local is_test = name:find "_spec$" and names[name:gsub("_spec$", "")]
      assert.is_truthy(is_test or names[name .. "_spec"], "scripts/" .. name .. "_spec.lua is missing")
    end
    assert.is_true(names["01_quickstart_spec"])
  end)

  it("pass them with optlua test", function()
    local result = process.run(".", "optlua test scripts")
    local passed, rest = result.out:match "(%d+) successes / (0 failures / 0 errors / %d+ pending)"
    assert.is_truthy(rest, result.out .. result.err)
    assert.is_true(tonumber(passed) >= 16)
    assert.same({ 0, "" }, { result.code, result.err })
  end)
end)
