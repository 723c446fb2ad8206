/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "providers/lease-name.h"
#include "providers/request.h"
#include "providers/sandbox.h"

enum { SERVICES_MAX = 64 };

static int no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory for the sandbox's description");
}

/* An id is good when it can be a directory's name; a service is a file's. */
static int check_name(const char *id, size_t size, const char *field, struct error *err)
{
	char name[LEASE_NAME_MAX + 1];
	int r;

	r = lease_name_encode(id, size, name, err);
	return r < 0 ? error_wrap(err, "%s", field) : 0;
}

static int check_id(const char *id, size_t size, struct error *err)
{
	return check_name(id, size, "trajectory_id", err);
}

struct service_values {
	const char *name, *health_path;
	double port;
};

static const struct json_field service_fields[] = {
	{"name", JSON_STRING, offsetof(struct service_values, name), .required = true},
	{"port", JSON_INTEGER, offsetof(struct service_values, port), .required = true, .min = 1,
		.max = 65535},
	{"health_path", JSON_STRING, offsetof(struct service_values, health_path)},
};

/* Any port has its number as a name among the endpoints. */
static int check_not_a_port(const char *name, double port, struct error *err)
{
	size_t len = strspn(name, "0123456789");
	long number = len > 0 && len <= 5 ? strtol(name, NULL, 10) : 0;

	if (name[len] || name[0] == '0' || number < 1 || number > 65535 || number == (long)port)
		return 0;
	return error_set(err, EINVAL,
		"'name' is '%s', which is what port %ld is called among the endpoints: name it after what it serves",
		name, number);
}

static int decode_service(const cJSON *item, struct sandbox_service *ret_service, struct error *err)
{
	struct service_values values = {.health_path = "/health"};
	int r;

	if (!cJSON_IsObject(item))
		return error_set(err, EINVAL, "must be an object, not %s", json_type_name(item));
	r = json_fields_read(item, service_fields,
		sizeof(service_fields) / sizeof(service_fields[0]), &values, err);
	if (r < 0)
		return r;
	r = check_name(values.name, strlen(values.name), "'name'", err);
	if (r < 0)
		return r;
	r = check_not_a_port(values.name, values.port, err);
	if (r < 0)
		return r;
	if (values.health_path[0] != '/')
		return error_set(err, EINVAL, "'health_path' must begin with '/'");
	ret_service->name = strdup(values.name);
	ret_service->health_path = strdup(values.health_path);
	ret_service->port = (uint16_t)values.port;
	return ret_service->name && ret_service->health_path ? 0 : no_memory(err);
}

static const struct sandbox_service *find_service(const struct sandbox_spec *spec, const char *name)
{
	for (unsigned i = 0; i < spec->service_count; i++)
		if (!strcmp(spec->services[i].name, name))
			return &spec->services[i];
	return NULL;
}

static int decode_services(const cJSON *list, struct sandbox_spec *spec, struct error *err)
{
	int count = cJSON_GetArraySize(list);
	const cJSON *item;

	if (!list || count == 0)
		return 0;
	if (count > SERVICES_MAX)
		return error_set(
			err, EINVAL, "'services': at most %d, not %d", SERVICES_MAX, count);
	spec->services = calloc((size_t)count, sizeof(spec->services[0]));
	if (!spec->services)
		return no_memory(err);
	cJSON_ArrayForEach (item, list) {
		struct sandbox_service service = {0};
		int r = decode_service(item, &service, err);

		if (r == 0 && find_service(spec, service.name))
			r = error_set(err, EINVAL, "its 'name' is another service's");
		spec->services[spec->service_count++] = service;
		if (r < 0)
			return error_wrap(err, "'services', number %u", spec->service_count);
	}
	return 0;
}

struct spec_values {
	const char *trajectory_id, *env_type;
	const cJSON *env_args, *services, *metadata, *env;
	double timeout_sec, wait;
};

#define AT(member) offsetof(struct spec_values, member)
static const struct json_field spec_fields[] = {
	{"trajectory_id", JSON_STRING, AT(trajectory_id), .required = true},
	{"env_type", JSON_STRING, AT(env_type)},
	{"env_args", JSON_OBJECT, AT(env_args)},
	{"services", JSON_ARRAY, AT(services)},
	{"timeout_sec", JSON_POSITIVE, AT(timeout_sec), .max = REQUEST_SECONDS_MAX},
	{"metadata", JSON_STRING_MAP, AT(metadata)},
	{"env", JSON_STRING_MAP, AT(env)},
	{"wait", JSON_NUMBER, AT(wait), .min = 0, .max = REQUEST_SECONDS_MAX},
};
#undef AT

/* Copies a value that may be absent; an empty object is the same as none. */
static bool copy_object(const cJSON *value, cJSON **ret_copy)
{
	if (!value || !value->child)
		return true;
	*ret_copy = cJSON_Duplicate(value, true);
	return *ret_copy != NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Puts the members into the order of their names, which are all different, so that two can be
 * compared in one pass. */
static bool sort_members(cJSON *object)
{
	size_t count = 0, i = 0;
	cJSON **members, *item;

	cJSON_ArrayForEach (item, object)
		count++;
	members = calloc(count, sizeof(members[0]));
	if (!members)
		return false;
	cJSON_ArrayForEach (item, object)
		members[i++] = item;
	qsort(members, count, sizeof(members[0]), compare_names);
	for (i = 0; i < count; i++) {
		members[i]->prev = members[i ? i - 1 : count - 1]; /* the first one's: the last */
		members[i]->next = i + 1 < count ? members[i + 1] : NULL;
	}
	object->child = members[0];
	free(members);
	return true;
}

static bool copy_env(const cJSON *env, cJSON **ret_copy)
{
	return copy_object(env, ret_copy) && (!*ret_copy || sort_members(*ret_copy));
}

/* Both as copy_env() makes them. */
static bool same_env(const cJSON *a, const cJSON *b)
{
	const cJSON *x = a ? a->child : NULL, *y = b ? b->child : NULL;

	while (x && y && !strcmp(x->string, y->string) && !strcmp(x->valuestring, y->valuestring)) {
		x = x->next;
		y = y->next;
	}
	return !x && !y;
}

static bool copy_text(const char *text, char **ret_copy)
{
	if (!text)
		return true;
	*ret_copy = strdup(text);
	return *ret_copy != NULL;
}

static int fill_spec(const struct spec_values *values, struct sandbox_spec *spec, struct error *err)
{
	const cJSON *image = cJSON_GetObjectItemCaseSensitive(values->env_args, "sandbox_image");
	int r;

	r = check_id(values->trajectory_id, strlen(values->trajectory_id), err);
	if (r < 0)
		return r;
	if (image && !cJSON_IsNull(image) && !cJSON_IsString(image))
		return error_set(err, EINVAL, "'env_args.sandbox_image' must be a string, not %s",
			json_type_name(image));
	r = request_check_env(values->env, err);
	if (r < 0)
		return r;
	spec->timeout_sec = values->timeout_sec;
	spec->wait_sec = values->wait;
	if (!copy_text(values->trajectory_id, &spec->trajectory_id) ||
		!copy_text(values->env_type, &spec->env_type) ||
		!copy_object(values->env_args, &spec->env_args) ||
		!copy_object(values->metadata, &spec->metadata) ||
		!copy_env(values->env, &spec->env))
		return no_memory(err);
	return decode_services(values->services, spec, err);
}

static int decode_json(const char *text, size_t size, struct sandbox_spec *spec, struct error *err)
{
	struct spec_values values = {.wait = -1};
	cJSON *object;
	int r;

	r = json_parse_object(text, size, &object, err);
	if (r < 0)
		return r;
	r = json_fields_read(
		object, spec_fields, sizeof(spec_fields) / sizeof(spec_fields[0]), &values, err);
	if (r == 0)
		r = fill_spec(&values, spec, err);
	cJSON_Delete(object);
	return r;
}

static int decode_id(const char *text, size_t size, struct sandbox_spec *spec, struct error *err)
{
	int r;

	r = request_check_text(text, size, "the request", err);
	if (r < 0)
		return r;
	if (text[size - 1] == '\n')
		size--;
	if (memchr(text, '\n', size))
		return error_set(err, EINVAL,
			"a bare trajectory id is one line; an id with a newline is written as JSON");
	r = check_id(text, size, err);
	if (r < 0)
		return r;
	spec->wait_sec = -1;
	spec->trajectory_id = strndup(text, size);
	return spec->trajectory_id ? 0 : no_memory(err);
}

int sandbox_spec_decode(
	const char *text, size_t size, struct sandbox_spec *ret_spec, struct error *err)
{
	struct sandbox_spec spec = {0};
	int r;

	if (json_looks_like_object(text, size))
		r = decode_json(text, size, &spec, err);
	else
		r = decode_id(text, size, &spec, err);
	if (r < 0) {
		sandbox_spec_fini(&spec);
		return r;
	}
	*ret_spec = spec;
	return 0;
}

int sandbox_spec_from_id(
	const char *trajectory_id, struct sandbox_spec *ret_spec, struct error *err)
{
	struct sandbox_spec spec = {.wait_sec = -1};
	int r;

	r = check_id(trajectory_id, strlen(trajectory_id), err);
	if (r < 0)
		return r;
	spec.trajectory_id = strdup(trajectory_id);
	if (!spec.trajectory_id)
		return no_memory(err);
	*ret_spec = spec;
	return 0;
}

static bool copy_services(const struct sandbox_spec *from, struct sandbox_spec *to)
{
	if (!from->service_count)
		return true;
	to->services = calloc(from->service_count, sizeof(to->services[0]));
	if (!to->services)
		return false;
	to->service_count = from->service_count;
	for (unsigned i = 0; i < from->service_count; i++) {
		to->services[i].port = from->services[i].port;
		if (!copy_text(from->services[i].name, &to->services[i].name) ||
			!copy_text(from->services[i].health_path, &to->services[i].health_path))
			return false;
	}
	return true;
}

int sandbox_spec_copy(
	const struct sandbox_spec *spec, struct sandbox_spec *ret_spec, struct error *err)
{
	struct sandbox_spec copy = {.timeout_sec = spec->timeout_sec, .wait_sec = spec->wait_sec};

	if (!copy_text(spec->trajectory_id, &copy.trajectory_id) ||
		!copy_text(spec->env_type, &copy.env_type) ||
		!copy_object(spec->env_args, &copy.env_args) ||
		!copy_object(spec->metadata, &copy.metadata) ||
		!copy_object(spec->env, &copy.env) || !copy_services(spec, &copy)) {
		sandbox_spec_fini(&copy);
		return no_memory(err);
	}
	*ret_spec = copy;
	return 0;
}

static bool complete_image(const struct sandbox_spec *former, struct sandbox_spec *spec)
{
	const char *image = sandbox_spec_image(former);

	if (!spec->env_args)
		return copy_object(former->env_args, &spec->env_args);
	if (!image || sandbox_spec_image(spec))
		return true;
	/* null is the same as absent */
	cJSON_DeleteItemFromObjectCaseSensitive(spec->env_args, "sandbox_image");
	return cJSON_AddStringToObject(spec->env_args, "sandbox_image", image) != NULL;
}

int sandbox_spec_complete(const struct sandbox_spec *asked, const struct sandbox_spec *former,
	struct sandbox_spec *ret_spec, struct error *err)
{
	struct sandbox_spec spec;
	int r = sandbox_spec_copy(asked, &spec, err);

	if (r < 0)
		return r;
	if (!spec.timeout_sec)
		spec.timeout_sec = former->timeout_sec;
	if (!complete_image(former, &spec) ||
		(!spec.env_type && !copy_text(former->env_type, &spec.env_type)) ||
		(!spec.metadata && !copy_object(former->metadata, &spec.metadata)) ||
		(!spec.env && !copy_object(former->env, &spec.env)) ||
		(!spec.service_count && !copy_services(former, &spec))) {
		sandbox_spec_fini(&spec);
		return no_memory(err);
	}
	*ret_spec = spec;
	return 0;
}

void sandbox_spec_fini(struct sandbox_spec *spec)
{
	if (!spec)
		return;
	free(spec->trajectory_id);
	free(spec->env_type);
	cJSON_Delete(spec->env_args);
	cJSON_Delete(spec->metadata);
	cJSON_Delete(spec->env);
	for (unsigned i = 0; i < spec->service_count; i++) {
		free(spec->services[i].name);
		free(spec->services[i].health_path);
	}
	free(spec->services);
	*spec = (struct sandbox_spec){0};
}

const char *sandbox_spec_image(const struct sandbox_spec *spec)
{
	return cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(spec->env_args, "sandbox_image"));
}

static bool same_text(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static bool has_services(const struct sandbox_spec *live, const struct sandbox_spec *asked)
{
	if (live->service_count != asked->service_count)
		return false;
	for (unsigned i = 0; i < asked->service_count; i++) {
		const struct sandbox_service *want = &asked->services[i];
		const struct sandbox_service *have = find_service(live, want->name);

		if (!have || have->port != want->port ||
			strcmp(have->health_path, want->health_path) != 0)
			return false;
	}
	return true;
}

const char *sandbox_spec_difference(
	const struct sandbox_spec *live, const struct sandbox_spec *asked)
{
	const char *image = sandbox_spec_image(asked);

	if (image && !same_text(image, sandbox_spec_image(live)))
		return "env_args.sandbox_image";
	if (asked->env_type && !same_text(asked->env_type, live->env_type))
		return "env_type";
	if (asked->env && !same_env(asked->env, live->env))
		return "env";
	if (asked->service_count && !has_services(live, asked))
		return "services";
	return NULL;
}

static void render_services(const struct sandbox_spec *spec, struct strbuf *out)
{
	json_add_key(out, "services");
	strbuf_addc(out, '[');
	for (unsigned i = 0; i < spec->service_count; i++) {
		strbuf_adds(out, i ? ",{" : "{");
		json_add_text_key(out, "name", spec->services[i].name);
		json_add_count_key(out, "port", spec->services[i].port);
		json_add_text_key(out, "health_path", spec->services[i].health_path);
		strbuf_addc(out, '}');
	}
	strbuf_addc(out, ']');
}

static void render_object(const char *key, const cJSON *value, struct strbuf *out)
{
	if (!value)
		return;
	json_add_key(out, key);
	json_add_value(out, value);
}

void sandbox_spec_render(const struct sandbox_spec *spec, struct strbuf *out)
{
	strbuf_addc(out, '{');
	json_add_text_key(out, "trajectory_id", spec->trajectory_id);
	if (spec->env_type)
		json_add_text_key(out, "env_type", spec->env_type);
	render_object("env_args", spec->env_args, out);
	if (spec->service_count)
		render_services(spec, out);
	if (spec->timeout_sec > 0) {
		json_add_key(out, "timeout_sec");
		strbuf_addf(out, "%.17g", spec->timeout_sec);
	}
	render_object("metadata", spec->metadata, out);
	render_object("env", spec->env, out);
	strbuf_addc(out, '}');
}
