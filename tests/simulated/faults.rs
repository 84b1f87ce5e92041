//! What may go wrong at any time.

/// Probabilities of faults in thousandths; zero by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The daemon ends before an effect.
    pub crash: u64,
    /// The store refuses a batch.
    pub store_refuses: u64,
    /// The store keeps a batch, and answers with an error.
    pub store_unsure: u64,
    /// The daemon ends during the write of a batch: it is kept or not, at random.
    pub store_crashes: u64,
    /// A step is not executed, and the connection is lost.
    pub step_lost: u64,
    /// A step is executed, but its answer and the connection are lost.
    pub answer_lost: u64,
    /// A step is executed late, although its connection was lost.
    pub late_write: u64,
    /// A report arrives twice.
    pub report_twice: u64,
    /// A deletion takes a while.
    pub slow_delete: u64,
    /// A list shows an earlier state; later changes arrive afterwards.
    pub stale_list: u64,
    /// The list of a kind fails, at the start or after some objects.
    pub list_fails: u64,
    /// A watch ends instead of reporting a change: its kind is listed again on the same connection.
    pub watch_ends: u64,
    /// A poll of the source or the read of a payload fails.
    pub source_fails: u64,
    /// The accepted commit cannot be read again at the start of a process.
    pub restore_fails: u64,
    /// A payload arrives long after its request.
    pub payload_late: u64,
    /// With replicas: a batch's answer is lost, and the batch arrives later or never.
    pub batch_late: u64,
    /// With replicas: the database's answer about the lease is lost, or late.
    pub lease_unsure: u64,
    /// With replicas: a step takes up to [`LATE_MAX`](crate::LATE_MAX) to arrive.
    pub slow_write: u64,
}
