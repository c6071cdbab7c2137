-- run: runs spec files and C tests, each in a process of its own, and counts.
--
--   lua5.4 tests/run.lua [--build=DIR] [--lua=INTERPRETER] [--filter=PATTERN] [--verbose] FILE…
--
-- A file that ends in .lua is a busted spec, run by INTERPRETER (lua5.4); any other is a program. Each
-- ends with a line "N passed, N failed[, N skipped]". A process that ends without that line, crashes,
-- hangs, runs no test or exits otherwise than its counts say is itself one failure. Specs find the
-- library of DIR (build) through LUA_PATH and LUA_CPATH and the program through OPTLUA. Logs stay in
-- DIR/test. The last line printed counts all; the exit status is 0 if tests ran and none failed.

local options = { build = "build", lua = "lua5.4", filter = nil, verbose = false }
local files = {}
for _, argument in ipairs(arg) do
  local key, value = argument:match("^%-%-(%w+)=(.*)$")
  if key then options[key] = value
  elseif argument == "--verbose" then options.verbose = true
  else table.insert(files, argument) end
end

local JOBS, SECONDS = 2, 1200

-- One file: its output goes to a log, its status and seconds to our pipe. xargs runs JOBS at a time.
local WORKER = [[
log=$BUILD/test/$(basename "$1" .lua).log
begin=$(date +%s%N)
case $1 in
  *.lua) set -- "$1" "$INTERPRETER" "$BUSTED" --output=tests/report.lua ${FILTER:+"--filter=$FILTER"} "$1" ;;
  *) set -- "$1" "$1" ;;
esac
file=$1; shift
{ timeout -k 10 "$SECONDS_LIMIT" "$@"; } >"$log" 2>&1 </dev/null
echo "$? $((($(date +%s%N) - begin) / 1000000)) $log $file"
]]

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return (text:gsub("\n$", ""))
end

local function environment()
  local root = capture("pwd")
  local build = options.build:match("^/") and options.build or root .. "/" .. options.build
  local variables = {
    ROOT = root, BUILD = build, OPTLUA = build .. "/optlua",
    LUA_PATH = ("%s/lua/?.lua;%s/lua/?/init.lua;%s/tests/?.lua;;"):format(root, root, root),
    LUA_CPATH = build .. "/lib/?.so;;",
    INTERPRETER = options.lua, BUSTED = capture("command -v busted"), FILTER = options.filter or "",
    SECONDS_LIMIT = tostring(SECONDS), OMP_WAIT_POLICY = "passive",
  }
  local words = { "env -u LUA_INIT -u LUA_INIT_5_4 -u LUA_PATH_5_4 -u LUA_CPATH_5_4" }
  for name, value in pairs(variables) do table.insert(words, name .. "=" .. quote(value)) end
  return table.concat(words, " "), build
end

-- Runs them all; calls visit(status, milliseconds, log, file) as each ends.
local function run(visit)
  local env, build = environment()
  assert(os.execute("mkdir -p " .. quote(build .. "/test")))
  local list = os.tmpname()
  local out = assert(io.open(list, "w"))
  out:write(table.concat(files, "\0"), "\0")
  out:close()
  local pipe = assert(io.popen(("%s xargs -0 -n 1 -P %d sh -c %s worker <%s"):format(env, JOBS, quote(WORKER), list)))
  for line in pipe:lines() do
    local status, time, log, file = line:match("^(%d+) (%d+) (%S+) (.*)$")
    visit(tonumber(status), tonumber(time), log, file)
  end
  pipe:close()
  os.remove(list)
end

-- What is wrong with a process that is not said by its counts, or nil.
local function complaint(status, passed, failed, skipped, text)
  if status == 124 or status == 137 then return ("was stopped after %d s"):format(SECONDS) end
  if not passed then
    local last
    for name in text:gmatch("\1([^\n]*)") do last = name end
    local how = status > 128 and ("was killed by signal %d"):format(status - 128) or ("ended with status %d"):format(status)
    return how .. (last and ", in: " .. last or ", before its first test")
  end
  if passed + failed + skipped == 0 and not options.filter then return "runs no test" end
  if (status == 0) ~= (failed == 0) then return ("ended with status %d"):format(status) end
end

-- Prints what a process said; the names of its tests only if all is to be seen.
local function print_log(text)
  text = options.verbose and text:gsub("\1", "- ") or text:gsub("\1[^\n]*\n", "")
  if text:find("%S") then io.write(text:gsub("^%s*\n", ""):gsub("%s*$", ""), "\n") end
end

local total = { passed = 0, failed = 0, skipped = 0 }

local function visit(status, time, log, file)
  local text = assert(io.open(log, "rb")):read("a")
  local said, passed, failed, skipped = ("\n" .. text):match("^(.*)\n(%d+) passed, (%d+) failed,? ?(%d*)[^\n]*\n$")
  passed, failed, skipped = tonumber(passed), tonumber(failed), tonumber(skipped) or 0
  local wrong = complaint(status, passed, failed, skipped, text)
  passed, failed = passed or 0, (failed or 0) + (wrong and 1 or 0)
  if failed > 0 or options.verbose then
    print_log(said or text)
  end
  if wrong then io.write("FAILED: ", file, " ", wrong, "\n") end
  local note = (failed > 0 and (" %4d failed"):format(failed) or "") .. (skipped > 0 and (" %4d skipped"):format(skipped) or "")
  io.write(("%-44s %7.1f s %5d passed%s\n"):format(file, time / 1000, passed, note))
  io.flush()
  total.passed, total.failed, total.skipped = total.passed + passed, total.failed + failed, total.skipped + skipped
end

if #files > 0 then run(visit) end
if total.passed + total.failed + total.skipped == 0 then
  total.failed = 1
  print("FAILED: no test ran")
end
print(("%d passed, %d failed%s"):format(total.passed, total.failed,
  total.skipped > 0 and (", %d skipped"):format(total.skipped) or ""))
os.exit(total.failed == 0)
