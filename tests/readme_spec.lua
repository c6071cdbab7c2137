-- README: what it says can be run. Blocks of Lua that begin with the name of a file are written to one folder, and the
-- commands below "sh" run there; the others make one script.
local process = require "process"

local function blocks(kind)
  local list = {}
  for text in process.read("README.md"):gmatch("```" .. kind .. "\n(.-)```") do list[#list + 1] = text end
  return list
end

--- The files of the README, by name, and the rest as one script.
local function files()
  local named, rest = {}, {}
  for _, text in ipairs(blocks "lua") do
    local name = text:match "^%-%- ([%w_]+%.lua)\n"
    if name then named[name] = text else rest[#rest + 1] = text end
  end
  return named, table.concat(rest, "\n")
end

local function commands()
  local list = {}
  for _, text in ipairs(blocks "sh") do
    for line in text:gmatch "[^\n]+" do list[#list + 1] = (line:gsub("%s*#.*$", "")) end
  end
  return list
end

-- What commands print, where they print more than a training does.
local prints = {
  { "%-%-help", "%-%-width number" }, { "no_decay.lr_scale=10", "group no_decay: AdamW.*lr = 0.0015 .*\n  4 parameters" },
  { "%-%-plan", "memory: parameters" }, { "optlua test", "1 success" },
}

describe("README", function()
  local folder
  setup(function()
    folder = process.folder()
    for name, text in pairs((files())) do process.write(folder .. "/" .. name, text) end
  end)
  teardown(function() process.remove(folder) end)

  it("shows recipes of less than ten lines", function()
    local named, count = files(), 0
    for name, text in pairs(named) do
      count = count + 1
      assert.is_true(name == "train.lua" or select(2, text:gsub("\n", "")) - 1 < 10, name)
    end
    assert.equal(6, count)
  end)

  it("has blocks that make one script which runs", function()
    local _, script = files()
    local plain = script:gsub("epoch = 1, 20", "epoch = 1, 1"):gsub("model:load%(.-\n", ""):gsub("[^\n]*optlua.load.-\n", "")
    process.write(folder .. "/plain.lua", plain)
    local result = process.run(folder, "optlua plain.lua")
    assert.equal("", result.err)
    assert.matches("%(5, 10%)\nLion: float32, 1 pass", result.out)
  end)

  it("goes on from checkpoints as it says", function()
    local place = process.folder()
    process.write(place .. "/train.lua", files()["train.lua"])
    local said = {}
    for line in blocks("bash")[1]:gmatch "[^\n]+" do
      local result = process.run(place, (line:gsub("%s*#.*$", "")))
      assert.equal(0, result.code, line .. ": " .. result.err)
      said[#said + 1] = result.out
    end
    process.remove(place)
    assert.matches("resume: runs/digits/checkpoints/step%-00000023, step 23, epoch 2\nepoch  2  step 46", said[2])
    assert.matches("the run is in runs/again", said[3])
    assert.matches("step%-00000046", said[4])
  end)

  for _, command in ipairs(commands()) do
    it("says " .. command, function()
      local short = command:gsub("optlua (%l+%.lua)", command:find "plan" and "%0" or "%0 --steps 2 --out run$$")
      process.remove(folder .. "/run")
      local result = process.run(folder, short)
      assert.equal(0, result.code, result.err)
      local wanted = "the run is in run"
      for _, pair in ipairs(prints) do
        if command:find(pair[1]) then
          wanted = pair[2]
          break
        end
      end
      assert.matches(wanted, result.out)
    end)
  end
end)
