-- Each command in the heads of the scripts that show groups, specs and configs does what it should, shortened where it
-- would take long. training_spec runs 01 and 02, scripts_spec those that need no config.
local process = require "process"

-- What is added to a command that trains, and what it prints, by script.
local scripts = {
  ["scripts/03_groups.lua"] = { prints = "\n100\t" },
  ["scripts/04_spec.lua"] = { short = "--epochs 2", prints = "epoch  2  step 46  loss [%d.]+  validation accuracy" },
  ["scripts/05_named_params.yaml"] = { short = "--epochs 2", prints = "epoch  2  step 46  loss [%d.]+  validation accuracy" },
  ["scripts/06_char_gpt.lua"] = { short = "--steps 3 --layers 1 --width 16 --heads 2 --context 16", prints = "validation loss [%d.]+.*\nThe " },
  ["scripts/07_rules.lua"] = { prints = "^MyMuon: %d+ hold" },
  ["scripts/gan_2d.lua"] = { short = "--steps 3", prints = "clusters found %d of 8" },
}

-- What commands print that do not train.
local looks = { ["--help"] = "usage: optlua", ["--print-config"] = "^return {", ["--plan"] = "memory: parameters" }

--- The commands in the head of a script: `optlua …`, behind two spaces or more; "| --x" is one more command.
local function commands_of(path)
  local list = {}
  for line in process.read(path):gmatch "[^\n]+" do
    local command = line:match "^%-%-  +(optlua .*)" or line:match "^# (optlua .*)"
    if command then
      command = command:gsub("%s%s+%(.*$", ""):gsub("FILE", "README.md")
      local first = command:match "^[^|]*[^| ]"
      list[#list + 1] = first
      for other in command:gmatch "| *([^|]*[^| ])" do list[#list + 1] = first:gsub(" %-%-[^ ]+$", "") .. " " .. other end
    end
  end
  return list
end

local function check(command, script)
  local out = process.folder()
  local look = looks[command:match "[^ ]+$"]
  local short = look and "" or ((script.short and script.short .. " --out " .. out .. "/run") or "")
  local result = process.run(".", command .. " " .. short)
  process.remove(out)
  assert.equal("", result.err)
  assert.equal(0, result.code)
  assert.matches(look or script.prints, result.out)
  return result.out
end

describe("the head of a script:", function()
  local count, paths = 0, {}
  for path in pairs(scripts) do paths[#paths + 1] = path end
  table.sort(paths)
  for _, path in ipairs(paths) do
    local commands, script = commands_of(path), scripts[path]
    assert(#commands > 0, path .. " says no command")
    for _, command in ipairs(commands) do
      count = count + 1
      it(command, function() check(command, script) end)
    end
  end
  assert(count >= 11, "commands are missing")
end)

describe("the scripts", function()
  local function trained(more)
    return check("optlua scripts/04_spec.lua " .. more, { short = "", prints = "" })
  end

  it("03 shows what it does before it does it", function()
    local out = process.run(".", "optlua scripts/03_groups.lua").out
    assert.matches("group hidden: Muon", out)
    assert.matches("group no_decay: AdamW.*\n  9 parameters", out)
    assert.matches("body.0.proj.weight", out)
    assert.matches("%* weight_decay of hidden", out)
  end)

  it("04 takes what the command line says", function()
    local text = trained "--epochs 5 --optimizer.lr=1e-3 --groups.biases.lr=1e-2 --print-config"
    assert.matches("epochs = 5", text)
    assert.matches('name = "biases".-\n', text)
    assert.matches("lr = 0.01[,\n ]", text)
    text = trained "--optimizer=SGD --optimizer.momentum=0.9 --optimizer.lr=0.1 --lr_scheduler=null --plan"
    assert.matches("group biases: SGD { .*lr = 0.1, .*momentum = 0.9, .*weight_decay = 0 }", text)
  end)

  it("05 gives biases five times the rate, and no decay", function()
    local text = trained "--config scripts/05_named_params.yaml --lr_scheduler=null --plan"
    assert.matches("group decay: AdamW { .*betas = { 0.9, 0.95 }.*lr = 0.0001, .*weight_decay = 0.01 }\n  2 parameters", text)
    assert.matches("group no_decay: AdamW { .*lr = 0.0005, .*weight_decay = 0 }\n  2 parameters", text)
  end)
end)
