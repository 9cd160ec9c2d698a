"""Tables: directories of Arrow files whose logs state which of the files count.

From the names of files up to what a person runs: `names`, `files`, `entry`, `state`, `checkpoint`, `log`; `snapshot`, `collect`,
`transaction`; `history`, `restore`, `vacuum`, `repair`, `fsck`, `copy`. Jobs are planned and compared in `dataset.write`.
"""
