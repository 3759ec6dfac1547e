"""A Jupyter client for tests: runs what stands on stdin through the real kernel and prints every message as JSON.

Input: a JSON array of steps {"code": …, "interrupt": seconds?, "stop_on_error": bool?, "queue": bool?}; a queued step is sent without waiting for the
one before. {"complete": …} and {"inspect": …} ask about the end of a code instead. Output: one JSON object a step: {"reply": content, "outputs":
[{"type", "content"}]}.
"""
import json
import sys
import threading
import time

from jupyter_client.manager import start_new_kernel


def collect(client, identities, timeout):
    """Messages by request, until every request was answered and is idle."""
    results = {identity: {'reply': None, 'outputs': [], 'idle': False} for identity in identities}
    end = time.monotonic() + timeout
    while not all(r['reply'] and r['idle'] for r in results.values()):
        if time.monotonic() > end:
            raise TimeoutError(json.dumps(list(results.values()), default=str))
        for channel in (client.iopub_channel, client.shell_channel):
            while channel.msg_ready():
                message = channel.get_msg()
                result = results.get(message['parent_header'].get('msg_id'))
                if result is None:
                    continue
                kind, content = message['msg_type'], message['content']
                if kind == 'execute_reply':
                    result['reply'] = content
                elif kind == 'status':
                    result['idle'] = content['execution_state'] == 'idle'
                elif kind != 'execute_input':
                    result['outputs'].append({'type': kind, 'content': content})
        time.sleep(0.02)
    return [results[identity] for identity in identities]


def ask(client, step):
    """The reply to a question about code."""
    kind = 'complete' if 'complete' in step else 'inspect'
    identity = getattr(client, kind)(step[kind], len(step[kind]))
    while True:
        message = client.get_shell_msg(timeout=60)
        if message['parent_header'].get('msg_id') == identity:
            return {'reply': message['content'], 'outputs': []}


manager, client = start_new_kernel(kernel_name='teamtr', startup_timeout=60)
try:
    pending = []
    steps = json.load(sys.stdin)
    for step, following in zip(steps, steps[1:] + [{}]):
        if 'code' not in step:
            print(json.dumps(ask(client, step)))
            continue
        pending.append(client.execute(step['code'], stop_on_error=step.get('stop_on_error', True)))
        if 'interrupt' in step:
            threading.Timer(step['interrupt'], manager.interrupt_kernel).start()
        if not following.get('queue'):
            for result in collect(client, pending, 60):
                result.pop('idle')
                print(json.dumps(result))
            pending = []
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
