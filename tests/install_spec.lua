-- install: an installed tree works, after it has been moved too, and goes without a trace.

local OPTLUA = os.getenv "OPTLUA" or "build/optlua"
local BUILD = OPTLUA:match("^(.*)/[^/]*$")

-- Runs a command; returns its output (both streams), trimmed, and its exit status.
local function run(command, ...)
  local pipe = assert(io.popen("{ " .. command:format(...) .. "\n} 2>&1"))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  return (output:gsub("%s+$", "")), status
end

-- Runs a command that must succeed; returns its output.
local function must(command, ...)
  local output, status = run(command, ...)
  assert(status == 0, ("%s\nended with status %d:\n%s"):format(command:format(...), status, output))
  return output
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local SCRIPT = [[
local optlua = require "optlua"
local train, test = optlua.data.digits()
print(optlua.tensor({ 1, 2, 3 }):sum():item(), #train, #test, arg[1])
]]
local SAID = "6.0\t1437\t360\thello"

local PROGRAM = [[
#include <optlua.h>
#include <stdio.h>

int main(void) {
  ol_error error;
  ol_tensor *tensor;
  ol_shape shape = { .ndim = 2, .size = { 2, 3 } };
  if (ol_tensor_zeros(&error, OL_F32, &shape, &tensor) != OL_OK) return puts(error.message);
  if (ol_tensor_fill(&error, tensor, 7) != OL_OK) return puts(error.message);
  printf("%s %g\n", OL_VERSION, ol_tensor_get(tensor, 5));
  ol_release(tensor);
  return 0;
}
]]

-- Nothing of the source tree is in the environment, nor is it the working folder.
local CLEAN = "cd / && env -i PATH=/usr/bin:/bin HOME=/nonexistent "

describe("install", function()
  local folder, tree

  setup(function()
    folder = must("mktemp -d")
    tree = folder .. "/moved"
    must("make install BUILD='%s' PREFIX='%s/first' DESTDIR=", BUILD, folder)
    must("mv '%s/first' '%s'", folder, tree)
    write(folder .. "/script.lua", SCRIPT)
  end)

  teardown(function() must("rm -rf '%s'", folder) end)

  it("runs a script from where the tree was moved", function()
    assert.are.equal(SAID, must(CLEAN .. "'%s/bin/optlua' '%s/script.lua' hello", tree, folder))
  end)

  it("knows its own library, not that of the source tree", function()
    local code = [[print((package.searchpath("optlua", package.path)))]]
    assert.are.equal(tree .. "/share/lua/5.4/optlua/init.lua", must(CLEAN .. "'%s/bin/optlua' -e '%s'", tree, code))
  end)

  it("loads in stock lua5.4", function()
    local paths = ("LUA_PATH='%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua;;' LUA_CPATH='%s/lib/lua/5.4/?.so;;'")
      :format(tree, tree, tree)
    assert.are.equal(SAID, must(CLEAN .. "%s lua5.4 '%s/script.lua' hello", paths, folder))
  end)

  it("builds programs in C by pkg-config", function()
    write(folder .. "/program.c", PROGRAM)
    must("export PKG_CONFIG_PATH='%s/lib/pkgconfig' && gcc -Wall -Wextra -Werror -o '%s/program' '%s/program.c' "
      .. "$(pkg-config --cflags --libs optlua)", tree, folder, folder)
    local version = must("PKG_CONFIG_PATH='%s/lib/pkgconfig' pkg-config --modversion optlua", tree)
    assert.are.equal(version .. " 7", must(CLEAN .. "'%s/program'", folder))
  end)

  it("brings the manual page and the licence", function()
    must("grep -q '^.Nm optlua' '%s/share/man/man1/optlua.1'", tree)
    must("cmp LICENSE '%s/share/doc/optlua/LICENSE'", tree)
  end)

  it("can be staged", function()
    must("make install BUILD='%s' PREFIX=/usr DESTDIR='%s/stage'", BUILD, folder)
    assert.are.equal("usr", must("ls '%s/stage'", folder))
    assert.are.equal(SAID, must(CLEAN .. "'%s/stage/usr/bin/optlua' '%s/script.lua' hello", folder, folder))
  end)

  it("is uninstalled without a trace", function()
    must("make install BUILD='%s' PREFIX='%s/gone' DESTDIR=", BUILD, folder)
    must("make install BUILD='%s' PREFIX='%s/gone' DESTDIR=", BUILD, folder) -- over itself
    must("make uninstall PREFIX='%s/gone' DESTDIR=", folder)
    assert.are.equal("", must("find '%s' -path '*gone*'", folder))
  end)

  it("is uninstalled without harm to what was there before", function()
    must("mkdir -p '%s/mine/bin' '%s/mine/share/lua/5.4'", folder, folder)
    must("make install BUILD='%s' PREFIX='%s/mine' DESTDIR=", BUILD, folder)
    write(folder .. "/mine/lib/other", "")
    must("make uninstall PREFIX='%s/mine' DESTDIR=", folder)
    local left = must("cd '%s/mine' && find . | sort", folder)
    assert.are.equal(".\n./bin\n./lib\n./lib/other\n./share\n./share/lua\n./share/lua/5.4", left)
  end)
end)
