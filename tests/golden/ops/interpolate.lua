-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["interpolate/1"] = { outputs = {{0,{2,3,7}}}, grads = {{42,{2,3,4}}} },
  ["interpolate/2"] = { outputs = {{66,{2,3,7,3}}}, grads = {{192,{2,3,4,5}}} },
  ["interpolate/3"] = { outputs = {{312,{1,2,6,8}}}, grads = {{408,{1,2,3,4}}} },
  ["interpolate/4"] = { outputs = {{432,{1,2,8,6}}}, grads = {{528,{1,2,5,4}}} },
  ["interpolate/5"] = { outputs = {{568,{2,3,8}}}, grads = {{616,{2,3,5}}} },
  ["interpolate/6"] = { outputs = {{646,{2,2,7,3}}}, grads = {{730,{2,2,4,5}}} },
  ["interpolate/7"] = { outputs = {{810,{2,2,7,9}}}, grads = {{1062,{2,2,4,5}}} },
  ["interpolate/8"] = { outputs = {{1142,{1,2,6,8}}}, grads = {{1238,{1,2,4,5}}} },
  ["interpolate/9"] = { outputs = {{1278,{1,1,1,1}}}, grads = {{1279,{1,1,4,5}}} },
  ["interpolate/10"] = { outputs = {{1299,{1,1,3,3}}}, grads = {{1308,{1,1,1,1}}} },
  ["interpolate/11"] = { outputs = {{1309,{2,4,4,7}}}, grads = {{1533,{2,4,3,5}}} },
  ["interpolate/12"] = { outputs = {{1653,{0,3,7}}}, grads = {{1653,{0,3,4}}} },
  ["interpolate/13"] = { outputs = {{1653,{0,3,7,7}}}, grads = {{1653,{0,3,4,5}}} },
}
