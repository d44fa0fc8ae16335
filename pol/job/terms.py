"""What an order says of a job: derived here only, by consumer and validator."""

from domain.records import JobTerms
from pol.job.document import Job


def order_terms(job: Job) -> JobTerms:
    """Return the terms under which ``job`` is ordered; FLOPs per step are those that loading recomputed."""
    document = job.document
    return JobTerms(
        job_id=job.id,
        payload_bytes=job.payload_size,
        global_root=document.global_root,
        local_root=document.local_root,
        data_root=document.data_root,
        rounds=document.rounds,
        samples_per_round=document.samples_per_round,
        batch=document.batch,
        segment_length=document.segment_length,
        work_per_step=document.step_flops,
        result_chunks=document.global_chunks,
        executor_version=document.executor_version,
    )
