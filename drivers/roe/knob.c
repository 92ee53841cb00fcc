// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Switches of a device: a module parameter says how they are set in new devices; a file
 * in /sys/class/infiniband/NAME changes one of that device at any time, under traffic, too.
 * And files there that libibumad and libibverbs read and that the core does not provide.
 */
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>
#include "device.h"

static bool direct = true;
module_param(direct, bool, 0644);
MODULE_PARM_DESC(direct, "packets between two RC QPs of a device pass without a network (new devices; default Y)");

static bool relay = true;
module_param(relay, bool, 0644);
MODULE_PARM_DESC(relay, "an idle processor sends what a process posts in a stream (new devices; default Y)");

static bool hold = true;
module_param(hold, bool, 0644);
MODULE_PARM_DESC(hold, "small messages of a stream wait for each other until one is signaled (new devices; default Y)");

static bool ecn = true;
module_param(ecn, bool, 0644);
MODULE_PARM_DESC(ecn, "RC and UC packets may be marked by switches, marks are answered with CNPs, CNPs slow the sender (new devices; default Y)");

static struct roe_dev *to_dev(struct device *device)
{
	return rdma_device_to_drv_device(device, struct roe_dev, ib);
}

static ssize_t knob_show(bool on, char *buf)
{
	return sysfs_emit(buf, "%d\n", on);
}

static ssize_t knob_store(bool *on, const char *buf, size_t len)
{
	bool value;
	int err = kstrtobool(buf, &value);

	if (err)
		return err;
	WRITE_ONCE(*on, value);
	return len;
}

static ssize_t direct_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return knob_show(READ_ONCE(to_dev(device)->direct), buf);
}

static ssize_t direct_store(struct device *device, struct device_attribute *attr,
			    const char *buf, size_t len)
{
	return knob_store(&to_dev(device)->direct, buf, len);
}
static DEVICE_ATTR_RW(direct);

static ssize_t ecn_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return knob_show(READ_ONCE(to_dev(device)->ecn), buf);
}

/* Packets leave with the ECN bits that were chosen when their QP was connected. */
static ssize_t ecn_store(struct device *device, struct device_attribute *attr,
			 const char *buf, size_t len)
{
	return knob_store(&to_dev(device)->ecn, buf, len);
}
static DEVICE_ATTR_RW(ecn);

static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "roe\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%x\n", ROE_HW_VERSION);
}
static DEVICE_ATTR_RO(hw_rev);

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "roe\n");
}
static DEVICE_ATTR_RO(board_id);

static ssize_t relay_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return knob_show(READ_ONCE(to_dev(device)->relay), buf);
}

static ssize_t relay_store(struct device *device, struct device_attribute *attr,
			   const char *buf, size_t len)
{
	return knob_store(&to_dev(device)->relay, buf, len);
}
static DEVICE_ATTR_RW(relay);

static ssize_t hold_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return knob_show(READ_ONCE(to_dev(device)->hold), buf);
}

static ssize_t hold_store(struct device *device, struct device_attribute *attr,
			  const char *buf, size_t len)
{
	return knob_store(&to_dev(device)->hold, buf, len);
}
static DEVICE_ATTR_RW(hold);

static struct attribute *attrs[] = {
	&dev_attr_direct.attr,
	&dev_attr_ecn.attr,
	&dev_attr_relay.attr,
	&dev_attr_hold.attr,
	&dev_attr_hca_type.attr,
	&dev_attr_hw_rev.attr,
	&dev_attr_board_id.attr,
	NULL
};

const struct attribute_group roe_knob_group = {
	.attrs = attrs,
};

/**
 * roe_knob_init() - switches of a new device, as the module parameters say
 * @dev: not registered yet
 */
void roe_knob_init(struct roe_dev *dev)
{
	dev->direct = READ_ONCE(direct);
	dev->relay = READ_ONCE(relay);
	dev->hold = READ_ONCE(hold);
	dev->ecn = READ_ONCE(ecn);
}
