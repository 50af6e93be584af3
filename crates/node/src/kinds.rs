//! Every kind of block that a node can make.

use weft_core::{BlockRow, BlockTable};

/// Every kind of block that a node can make.
pub fn block_table() -> BlockTable {
    BlockTable::new(weft_blocks::table::rows().into_iter().chain([TCP_ROW, weft_mptcp::ROW, weft_socket::ROW]))
}

/// tcp, whose connections may be subflows of Multipath TCP.
const TCP_ROW: BlockRow = BlockRow {
    kind: weft_tcp::ROW.kind,
    make: |config| Ok(Box::new(weft_tcp::TcpBlock::with_extensions(config, weft_mptcp::EXTENSIONS)?)),
};
