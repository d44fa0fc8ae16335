"""The names of the files of a job. This file imports nothing, because daemons list the files of jobs that they do not
read.
"""

DOCUMENT = "job.json"
GLOBAL_STATE = "global.state"
LOCAL_STATE = "local.state"
SLOT_STATES = "slots.state"
DATA_FOLDER = "data"
