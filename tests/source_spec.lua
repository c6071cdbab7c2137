-- The library's own source: habits that hold in every file of lua/optlua.
local function files()
  local list = {}
  for path in io.popen("find lua/optlua -name '*.lua' | sort"):lines() do list[#list + 1] = path end
  return list
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

--- Calls visit(path, text) with every file but some.
local function each(but, visit)
  for _, path in ipairs(files()) do
    if not but[path:match "optlua/(.*)"] then visit(path, read(path)) end
  end
end

describe("the library", function()
  it("blames the script's line with `blame`, never with a level of `error`", function()
    local found = {}
    each({ ["blame.lua"] = true, ["config/file.lua"] = true }, function(path, text)
      for call in text:gmatch "%f[%w_.:]error(%b())" do
        if call:find ",%s*[1-9]%)$" then found[#found + 1] = path .. ": error" .. call end
      end
    end)
    assert.equal("", table.concat(found, "\n"))
  end)

  it("reads and writes text with optlua.files", function()
    local found = {}
    -- a log is appended to; room.lua comes before everything else
    each({ ["files.lua"] = true, ["room.lua"] = true, ["spec/log.lua"] = true }, function(path, text)
      if text:find "io%.open" or text:find "io%.lines" then found[#found + 1] = path end
    end)
    assert.equal("", table.concat(found, "\n"))
  end)

  it("writes shapes with optlua.shape, and asks it for sizes of dtypes", function()
    local found = {}
    each({ ["shape.lua"] = true }, function(path, text)
      if text:find '%f[%a]concat%([%w_.]*shape, ", "%)' then found[#found + 1] = path .. ": the text of a shape" end
      if text:find "float64 = 8" then found[#found + 1] = path .. ": sizes of dtypes" end
    end)
    assert.equal("", table.concat(found, "\n"))
  end)
end)
