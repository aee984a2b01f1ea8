"""Changes element [1, 2, 3] of the result of a captured gelu of 32 by 256: tamper.py TREE"""

import glob
import struct
import sys
import zipfile

path = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/torch.nn.functional.gelu/*/*/*/output.pth")[0]
with zipfile.ZipFile(path) as archive:
    parts = {name: archive.read(name) for name in archive.namelist()}
name, at = next(n for n in parts if n.endswith("/data/0")), ((1 * 16 + 2) * 128 + 3) * 4
(value,) = struct.unpack("<f", parts[name][at : at + 4])
parts[name] = parts[name][:at] + struct.pack("<f", value * 1.001) + parts[name][at + 4 :]
with zipfile.ZipFile(path, "w") as out:
    for name, content in parts.items():
        out.writestr(name, content)
